"""What is left out of a followed log after Ctrl-C: the traces of that, and nothing else."""

from __future__ import annotations

import pytest

from fleet.launch.run.interrupted import InterruptFilter

TRACE = 'Traceback (most recent call last):\n  File "a.py", line 1, in <module>\n    import b\n           ^\n'
LINK = "\nDuring handling of the above exception, another exception occurred:\n\n"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (f"step 1\n{TRACE}KeyboardInterrupt\n", "step 1\n"),
        (f"{TRACE}KeyboardInterrupt: \nsaved\n", "saved\n"),
        (f"{TRACE}KeyboardInterrupt", ""),
        (f"Exception ignored in: <function f>\n{TRACE}KeyboardInterrupt: \nsaved", "saved"),
        (f"{TRACE}ImportError: b\n{LINK}{TRACE}KeyboardInterrupt\n", ""),
        (f"{TRACE}KeyboardInterrupt\n{LINK}{TRACE}OSError: no room\n", None),
        (f"{TRACE}ValueError: x\nmore\n", None),
        (f"{TRACE}KeyboardInterrupt\n{TRACE}ValueError: x\n", f"{TRACE}ValueError: x\n"),
        ("  indented\n\nKeyboardInterrupt is a word\n 10%\r 20%", None),
        (TRACE, None),
    ],
)
@pytest.mark.parametrize("size", [1, 7, 10_000])
def test_traces_of_an_interrupt_are_left_out(text: str, shown: str | None, size: int) -> None:
    found = InterruptFilter()
    pieces = [text[begin : begin + size].encode() for begin in range(0, len(text), size)]
    assert (b"".join(map(found.feed, pieces)) + found.rest()).decode() == (text if shown is None else shown)
