"""Leaves out of what is shown the traces that Ctrl-C makes Python print: the reader knows what they pressed.

The log has them; and what else a script says when it is interrupted, such as where it saved its work, is shown.
"""

_BEGINS = (b"Traceback (most recent call last):", b"Exception ignored in")
_LINKS = (b"During handling of the above exception", b"The above exception was the direct cause")
_INTERRUPT = b"KeyboardInterrupt"


class InterruptFilter:
    """Takes pieces of a log as they come, from the moment of an interrupt on, and returns what is to be shown."""

    def __init__(self) -> None:
        self._line = b""
        """One that has not ended yet."""
        self._held: list[bytes] = []
        """A trace whose end has not been seen, or may have been."""
        self._last = b""
        """The exception that the trace ends with, as far as it is known."""

    def feed(self, chunk: bytes) -> bytes:
        """What of this, and of what was held back, is to be shown."""
        *lines, self._line = (self._line + chunk).splitlines(keepends=True) or [b""]
        if self._line.endswith(b"\n"):
            lines, self._line = [*lines, self._line], b""
        return b"".join(map(self._take, lines))

    def rest(self) -> bytes:
        """What is left when nothing more comes."""
        line, self._line = self._line, b""
        return (self._take(line) if line else b"") + self._release()

    def _take(self, line: bytes) -> bytes:
        if line.startswith(_BEGINS):
            before = self._release() if self._last else b""
            self._held.append(line)
            return before
        if self._held and self._belongs(line):
            self._held.append(line)
            return b""
        if self._held and not self._last:
            self._held.append(line)
            self._last = line
            return b""
        return self._release() + line

    def _belongs(self, line: bytes) -> bool:
        """Whether it is a line of a trace that is being held, other than the exception itself."""
        if line.startswith(_LINKS):
            self._last = b""
            return True
        return not line.strip() or line.startswith(b" ")

    def _release(self) -> bytes:
        is_interrupt = self._last.startswith(_INTERRUPT)
        held, self._held, self._last = self._held, [], b""
        return b"" if is_interrupt else b"".join(held)
