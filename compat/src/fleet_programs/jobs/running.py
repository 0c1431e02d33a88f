"""The trainers of this process that have not left their servers; when the process ends, each does so by itself."""

from __future__ import annotations

import atexit
import logging
from functools import cache
from typing import Protocol

from fleet.jobfiles.ending import has_failed, watch_exit


class Running(Protocol):
    """What takes leave of servers."""

    def stop(self) -> None:
        """Send what is queued and take leave."""

    def drop(self) -> None:
        """Let the connections go without a word."""


_running: set[Running] = set()
"""Kept alive here: the scope of a trainer may be gone long before the process ends, and what it owes is still owed."""

_log = logging.getLogger(f"fleet.{__name__}")  # below Fleet, which shows what it logs


def add(trainer: Running) -> None:
    """A trainer begins, or begins again."""
    watch_exit()
    _at_exit()
    _running.add(trainer)


def discard(trainer: Running) -> None:
    """A trainer has left, or was dropped."""
    _running.discard(trainer)


@cache
def _at_exit() -> None:
    atexit.register(leave)


def leave() -> None:
    """Leave all servers as the process ends: in order if it did its work, without a word if it failed."""
    is_failure = has_failed()
    for trainer in list(_running):
        _leave(trainer, is_failure)


def _leave(trainer: Running, is_failure: bool) -> None:
    try:
        if not is_failure:
            trainer.stop()
    except Exception as error:  # the others must leave as well
        _log.warning("a worker could not take leave of its servers: %s", error)
    try:
        trainer.drop()
    except Exception as error:
        _log.warning("a worker could not close its connections: %s", error)
