"""A program: blocks of operators over named variables. Plain data, with a text and a JSON form that read back."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from copy import copy, deepcopy
from numbers import Integral
from typing import Any, ClassVar

from fleet.errors import NotReadyError, UsageError, UsageTypeError
from fleet_programs.definition.operator import FORWARD, OPTIMIZE, SCHEDULE
from fleet_programs.program.block import Block
from fleet_programs.program.bodies import compact
from fleet_programs.program.description import ProgramDescription
from fleet_programs.program.json_form import from_json, to_json
from fleet_programs.program.notes import OF_EVALUATION
from fleet_programs.program.pruning import keep_needed, settle
from fleet_programs.program.text import to_text
from fleet_programs.program.text_reader import read
from fleet_programs.program.variable import Parameter, Variable

_serial = itertools.count()


class Program:
    """What layers build, `minimize` completes, the transpiler cuts, and the Executor runs.

    `random_seed` decides the first values of parameters (with the parameter's name and row alone, so that order of
    building, number of servers and processes do not matter) and the masks of dropout. `notes` are facts that passes
    leave for whoever runs the program: JSON values by name.
    """

    build_strategy: ClassVar[None] = None
    """How it is compiled, which a CompiledProgram has and a program by itself has not."""

    _seed_of_new: ClassVar[int] = 0

    def __init__(self) -> None:
        self._random_seed = self._seed_of_new
        self.notes: dict[str, Any] = {}
        self.serial = next(_serial)
        """Different for every program of this process: caches use it, with the version."""
        self.version = 0
        self.role = FORWARD
        """What operators that are added now belong to."""
        self.blocks = [Block(self, 0)]
        self._readers: list[Any] = []
        self._current = 0

    @property
    def random_seed(self) -> int:
        """0 leaves masks of dropout to torch's own generator."""
        return self._random_seed

    @random_seed.setter
    def random_seed(self, seed: int) -> None:
        if isinstance(seed, bool) or not isinstance(seed, Integral):
            raise UsageTypeError(f"random_seed must be a whole number, got {seed!r}")
        if seed < 0:
            raise UsageError(f"random_seed must be >= 0, got {seed}")
        if seed != self._random_seed:
            self._random_seed = int(seed)
            self.changed()

    @property
    def readers(self) -> list[Any]:
        """What gives a run its feed when it is given none: readers with iterable=False that were started.

        NotReadyError if one that is needed was not.
        """
        started = [reader for reader in self._readers if reader.is_started]
        given = {name for reader in started for name in reader.names}
        for reader in self._readers:
            if not given.issuperset(reader.names):
                raise NotReadyError(
                    f"the reader of {', '.join(reader.names)} was not started: call reader.start() before the run, or "
                    "give feed="
                )
        return started

    def add_reader(self, reader: Any) -> None:
        """Let a reader with iterable=False give a run its feed."""
        self._readers.append(reader)

    def changed(self) -> None:
        """Whoever changes a program by hand says so: what was compiled of it is out of date."""
        self.version += 1

    @contextmanager
    def adding(self, role: str) -> Iterator[None]:
        """Inside, new operators have a role."""
        before, self.role = self.role, role
        try:
            yield
        finally:
            self.role = before

    def _lr_schedule_guard(self, is_with_opt: bool = False) -> AbstractContextManager[None]:  # noqa: ARG002
        """`adding(SCHEDULE)`, as scripts that compute a learning rate by hand call it."""
        return self.adding(SCHEDULE)

    def _optimized_guard(self, param_and_grads: Sequence[Any]) -> AbstractContextManager[None]:  # noqa: ARG002
        """`adding(OPTIMIZE)`, as scripts that update parameters by hand call it."""
        return self.adding(OPTIMIZE)

    @property
    def desc(self) -> ProgramDescription:
        """The same program under the calls of PaddlePaddle's native one."""
        return ProgramDescription(self)

    def global_seed(self, seed: int = 0) -> None:
        """`random_seed` of this program and of those that are made from now on."""
        self.random_seed = seed
        Program._seed_of_new = self.random_seed

    def global_block(self) -> Block:
        """Block 0, which the Executor runs."""
        return self.blocks[0]

    def current_block(self) -> Block:
        """The block that layers add to."""
        return self.blocks[self._current]

    def block(self, index: int) -> Block:
        """A block by its index."""
        return self.blocks[index]

    @staticmethod
    def default() -> Program:
        """The program that layers add to, as variables ask for it; this one need not be it."""
        return _main

    @property
    def num_blocks(self) -> int:
        """How many blocks it has, block 0 included."""
        return len(self.blocks)

    def create_block(self, parent: int = 0) -> Block:
        """Add a block inside another."""
        block = Block(self, len(self.blocks), parent)
        self.blocks.append(block)
        self.changed()
        return block

    @contextmanager
    def inside(self, block: Block) -> Iterator[None]:
        """Inside, layers add to this block; afterwards to the one before."""
        before, self._current = self._current, block.index
        try:
            yield
        finally:
            self._current = before

    def list_vars(self) -> Iterator[Variable]:
        """The variables of all blocks."""
        for block in self.blocks:
            yield from block.vars.values()

    def owner_of(self, name: str) -> int:
        """The number of an inner block that has a variable; 0 if none has."""
        return next((block.index for block in self.blocks[1:] if name in block.vars), 0)

    def all_parameters(self) -> list[Parameter]:
        """The parameters of all blocks."""
        return [var for var in self.list_vars() if isinstance(var, Parameter)]

    def clone(self, for_test: bool = False) -> Program:
        """A copy; with `for_test` without backward and optimizer, and with dropout and batch norm as in evaluation.

        It reads from the same readers, which go on where they are.
        """
        other = Program()
        other._readers = list(self._readers)
        other.random_seed = self.random_seed
        kept = OF_EVALUATION if for_test else tuple(self.notes)
        other.notes = {name: deepcopy(note) for name, note in self.notes.items() if name in kept}
        other.blocks = []
        for block in self.blocks:
            twin = Block(other, block.index, block.parent)
            for name, var in block.vars.items():
                twin.vars[name] = copied = copy(var)
                copied.block = twin
            twin.ops = [op.copy() for op in block.ops if not (for_test and op.role != FORWARD)]
            other.blocks.append(twin)
        if for_test:
            for block in other.blocks:
                settle(block)
            compact(other)
        return other

    def prune(self, targets: Sequence[Variable | str], feeds: Iterable[str] = ()) -> Program:
        """A copy with only the operators that `targets` need, given `feeds`; it reads from no reader."""
        other = self.clone(for_test=True)
        other._readers = []
        keep_needed(other.global_block(), targets, feeds)
        compact(other)
        return other

    def become(self, other: Program) -> None:
        """Take over what another program says, and stay the same object: for the default programs.

        Blocks and variables stay the same objects as well, as far as they still exist: scripts hold them.
        """
        twin = other.clone()
        before = self.blocks
        self.random_seed, self.notes, self.blocks = twin.random_seed, twin.notes, twin.blocks
        for block, old in zip(twin.blocks, before, strict=False):
            old.take_over(block)
        self.blocks[: len(before)] = before[: len(self.blocks)]
        for block in self.blocks:
            block.program = self
        self._current = 0
        self.changed()

    @property
    def is_trained(self) -> bool:
        """Whether a run changes parameters, here or on servers."""
        return any(op.role == OPTIMIZE or op.type == "send" for op in self.global_block().ops)

    def to_string(self, throw_on_error: bool = False, with_details: bool = False) -> str:  # noqa: ARG002
        """The text form; nothing is left out of it, so that it reads back."""
        return to_text(self)

    def __str__(self) -> str:
        return self.to_string()

    def __repr__(self) -> str:
        num_ops = sum(len(block.ops) for block in self.blocks)
        return f"<Program of {len(self.blocks)} blocks, {num_ops} operators, {len(self.all_parameters())} parameters>"

    @staticmethod
    def parse_from_string(text: str | bytes) -> Program:
        """The program of a text form, or of the bytes that `desc.serialize_to_string()` gave."""
        return read(text, Program()) if not isinstance(text, bytes) else from_json(text.decode(), Program())

    def to_json(self) -> str:
        """The JSON form."""
        return to_json(self)

    @staticmethod
    def from_json(text: str) -> Program:
        """The program of a JSON form."""
        return from_json(text, Program())


_main, _startup = Program(), Program()


def default_main_program() -> Program:
    """The program that layers add to."""
    return _main


def default_startup_program() -> Program:
    """The program that gives parameters their first values."""
    return _startup


def switch_main_program(program: Program) -> Program:
    """Another default main program; the one before is returned."""
    global _main
    before, _main = _main, _checked(program, "main_program")
    return before


def switch_startup_program(program: Program) -> Program:
    """Another default startup program; the one before is returned."""
    global _startup
    before, _startup = _startup, _checked(program, "startup_program")
    return before


@contextmanager
def program_guard(main_program: Program, startup_program: Program | None = None) -> Iterator[None]:
    """Inside, layers add to these programs."""
    if startup_program is not None:
        _checked(startup_program, "startup_program")
    main = switch_main_program(main_program)
    startup = None if startup_program is None else switch_startup_program(startup_program)
    try:
        yield
    finally:
        switch_main_program(main)
        if startup is not None:
            switch_startup_program(startup)


def _checked(program: object, name: str) -> Program:
    if not isinstance(program, Program):
        raise UsageTypeError(f"{name} must be a Program, got {type(program).__name__}")
    return program
