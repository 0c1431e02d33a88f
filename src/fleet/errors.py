"""One exception tree for the whole package.

    FleetError                      everything raised on purpose
    ├── UsageError      ValueError  an argument or a combination of arguments that cannot work
    │   ├── StrategyError           a DistributedStrategy field set to a value it cannot have
    │   ├── RoleError               a process cannot learn who it is
    │   │   └── VariableError       one environment variable is missing or malformed
    │   └── EndpointError           a string that is not HOST:PORT, a duplicate, a port in use
    ├── UsageTypeError  TypeError   an argument of the wrong type
    ├── UnknownFieldError TypeError a field name that does not exist; carries the nearest one
    ├── NotSupportedError NotImplementedError   valid, but not built yet
    ├── NotReadyError   RuntimeError            a call that came before fleet.init()
    ├── CommunicationError RuntimeError         a peer went away or refused
    │   └── MovedError                          other servers have taken the place of the one that was called
    ├── CheckpointError OSError                 a checkpoint that cannot be written, found, trusted or used here
    ├── DivergedError   ArithmeticError         a loss that is no number any more
    └── DeadlineError   TimeoutError            a wait that ran out; says what it waited for

Each error is one line that names the thing, the value and the remedy. The built-in parent is there so that
code which only knows Python catches it too.
"""

from __future__ import annotations


class FleetError(Exception):
    """Everything Fleet raises on purpose."""


class UsageError(FleetError, ValueError):
    """An argument, or a combination of arguments, that cannot work."""


class StrategyError(UsageError):
    """A strategy field was given a value it cannot have."""


class RoleError(UsageError):
    """A process cannot learn its role: nothing says it, or two sources disagree."""


class VariableError(RoleError):
    """One environment variable is missing or malformed."""

    def __init__(self, name: str, message: str) -> None:
        super().__init__(f"{name} {message}")
        self.name = name


class EndpointError(UsageError):
    """A string that is not HOST:PORT, a duplicate endpoint, or a port that is in use."""


class UsageTypeError(FleetError, TypeError):
    """An argument of the wrong type."""


class UnknownFieldError(FleetError, TypeError):
    """A field that does not exist was read or set."""


class NotSupportedError(FleetError, NotImplementedError):
    """Valid input for a feature that is not built yet."""


class NotReadyError(FleetError, RuntimeError):
    """A call that needs `fleet.init()` came before it."""


class CommunicationError(FleetError, RuntimeError):
    """A peer went away, refused or answered nonsense."""

    retryable: bool = False
    """Whether the same call may succeed a moment later."""
    is_answer: bool = False
    """Whether the peer itself has said so: it can be reached."""


class MovedError(CommunicationError):
    """Other servers have taken the place of the one that was called; who called looks for them."""


class CheckpointError(FleetError, OSError):
    """A checkpoint cannot be written, is not there, is damaged, or does not fit what it is loaded into."""


class DivergedError(FleetError, ArithmeticError):
    """The loss is not a number any more, and no smaller scale would help."""


class DeadlineError(FleetError, TimeoutError):
    """A wait ran out of time."""
