"""Dispatchers: which server holds which block of a parameter.

A dispatcher is a class that is made with the list of servers. Its `dispatch` is asked for the gradients of each
parameter, block by block, then, after `reset`, for the blocks of all parameters at once; a parameter must go where its
gradient goes. Every process of a job asks for itself: the answer may depend on nothing but names, shapes and servers.
"""

from __future__ import annotations

import re
import zlib
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from fleet_programs.expressions.names import GRAD

_SUFFIX = re.compile(re.escape(GRAD) + r"|\.trainer_\d+$")


class PSDispatcher(ABC):
    """Base of dispatchers: `eps` are the servers, as HOST:PORT; `dispatch` of a subclass chooses among them."""

    def __init__(self, pserver_endpoints: Sequence[str]) -> None:
        self._eps = list(pserver_endpoints)
        self._step = 0

    @property
    def eps(self) -> list[str]:
        """The servers, as HOST:PORT."""
        return self._eps

    def reset(self) -> None:
        """Begin again at the first server."""
        self._step = 0

    @abstractmethod
    def dispatch(self, varlist: Sequence[Any]) -> list[str]:
        """One server for each variable."""


class RoundRobin(PSDispatcher):
    """One server after the other."""

    def dispatch(self, varlist: Sequence[Any]) -> list[str]:
        found = [self.eps[(self._step + index) % len(self.eps)] for index in range(len(varlist))]
        self._step = (self._step + len(varlist)) % len(self.eps)
        return found


class HashName(PSDispatcher):
    """CRC-32 of the name, equal in every process; a gradient counts under the name of its parameter."""

    def dispatch(self, varlist: Sequence[Any]) -> list[str]:
        return [self.eps[zlib.crc32(_own_name(var).encode()) % len(self.eps)] for var in varlist]


def _own_name(var: Any) -> str:
    name = var if isinstance(var, str) else var.name
    return _SUFFIX.sub("", name() if callable(name) else name)
