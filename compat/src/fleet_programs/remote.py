"""What programs need of the code that talks to other processes for them; most of this package knows no such process.

`fleet_programs` itself, which lies above its parts and is imported before any of them, says who provides it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Protocol

from fleet.errors import NotReadyError

if TYPE_CHECKING:
    from fleet_programs.definition.operator import Operator
    from fleet_programs.definition.registry import Kernel
    from fleet_programs.executor.executor import Executor
    from fleet_programs.executor.scope import Scope
    from fleet_programs.kernel.lowering import Lowering
    from fleet_programs.program.block import Block
    from fleet_programs.program.program import Program
    from fleet_programs.program.variable import Variable

    Folder = str | PathLike[str]


class RemoteWorker(Protocol):
    """The worker that keeps a scope's parameters together with servers; a scope has it from its first step on."""

    def with_server_lookups(self, ops: Sequence[Operator], block: Block) -> list[Operator]:
        """The operators, with requests to servers in place of lookups: for a program that may never have been cut."""

    def stop(self) -> None:
        """Send what is queued and take leave; a second call does nothing."""


class Remote(Protocol):
    """Servers and other trainers, as programs and their files meet them."""

    def kernel(self, op: Operator, lowering: Lowering) -> Kernel:
        """The kernel of an operator of `ops/remote.py`; UsageError if its program belongs to no job."""

    def save(self, executor: Executor, dirname: Folder, program: Program, filename: str | None = None) -> None:
        """Write everything that training of a program with servers goes on from."""

    def load(self, executor: Executor, dirname: Folder, program: Program, filename: str | None = None) -> None:
        """Load what `save` wrote into the servers of a program, and into this trainer."""

    def load_here(self, executor: Executor, dirname: Folder, program: Program, filename: str | None = None) -> None:
        """Load what servers wrote into a program without servers."""

    def refuse_to_load(self, program: Program, names: Iterable[str]) -> None:
        """UsageError if a variable is on servers, which would replace what is loaded here."""

    def for_inference(
        self, program: Program, feeds: Iterable[str], targets: Sequence[str], scope: Scope, folder: Folder
    ) -> tuple[Program, Scope]:
        """A program of one process that leads to the targets, and a scope with the servers' values for it."""

    def with_tables(self, program: Program) -> Program:
        """A trainer's program, with a parameter added for each of its tables."""

    def gathered(self, scope: Scope, wanted: Sequence[Variable]) -> Scope:
        """A copy of the scope, in which wanted variables that are on servers have the values that they have there."""


_load: Callable[[], Remote] | None = None


def provide(load: Callable[[], Remote]) -> None:
    """Say what gives the `Remote` of this process; it is called when a program needs one."""
    global _load
    _load = load


def remote() -> Remote:
    """Who talks to other processes for the programs of this one."""
    if _load is None:
        raise NotReadyError("nobody here talks to other processes for a program; import fleet_programs, which does")
    return _load()
