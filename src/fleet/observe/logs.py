"""Where Fleet's own log lines go: to stderr, each with its time and level, unless the program logs in its own way.

A library only names its loggers. This is called where Fleet runs the process or is told that a job begins: by
`fleet.init()`, whose workers say what needs attention, and by servers, which also say what they do.
"""

import logging
import sys
from functools import cache

from fleet import env

_log = logging.getLogger(__name__)

FORM = "%(asctime)s %(levelname)s %(name)s: %(message)s"
TIME = "%Y-%m-%d %H:%M:%S"


def warn_of_misspelt_variables() -> None:
    """A variable under nearly the name of one of Fleet's does nothing; each is told once in a process."""
    for name, meant in env.misspelt().items():
        _warn_of(name, meant)


@cache
def _warn_of(name: str, meant: str) -> None:
    _log.warning("%s is set, and Fleet has no such variable; did you mean %s?", name, meant)


def show_logs(level: int = logging.WARNING) -> None:
    """Show lines of this level and above from now on; a level that the program has set for `fleet` stays."""
    log = logging.getLogger("fleet")
    if logging.getLogger().handlers:
        return
    handler = next((one for one in log.handlers if isinstance(one, _Stamped)), None)
    if handler is None:
        handler = _Stamped()
        log.addHandler(handler)
    if log.level in (logging.NOTSET, handler.chosen):
        # Warnings pass as it is, and what the program sets for the root later then holds for Fleet too.
        handler.chosen = logging.NOTSET if level == logging.WARNING else level
        log.setLevel(handler.chosen)


class _Stamped(logging.Handler):
    """Writes to what stderr is at that moment; keeps still once the program has handlers, which get the same lines."""

    chosen: int | None = None
    """The level that was set here, and not by the program."""

    def __init__(self) -> None:
        super().__init__()
        self.setFormatter(logging.Formatter(FORM, TIME))

    def emit(self, record: logging.LogRecord) -> None:
        others = (*logging.getLogger("fleet").handlers, *logging.getLogger().handlers)
        if any(one is not self and not isinstance(one, logging.NullHandler) for one in others):
            return
        try:
            sys.stderr.write(f"{self.format(record)}\n")
        except Exception:
            self.handleError(record)
