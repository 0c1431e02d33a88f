"""What a fusing pass asks about operators: who reads a variable, and whether anybody else cares for it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from fleet_programs.definition.operator import Operator

if TYPE_CHECKING:
    from fleet_programs.program.block import Block
    from fleet_programs.program.variable import Variable


class Ops:
    """Operators in their order, with an index of their variables."""

    def __init__(self, ops: Sequence[Operator], block: Block, fetches: Sequence[str], *, on_host: bool) -> None:
        self.ops = list(ops)
        self.block = block
        self.on_host = on_host
        """Whether kernels may look at values, and hand memory to the native core."""
        self._fetches = set(fetches)
        self._readers: dict[str, list[Operator]] = defaultdict(list)
        self._writers: dict[str, list[Operator]] = defaultdict(list)
        self._places = {id(op): place for place, op in enumerate(self.ops)}
        for op in self.ops:
            for name in op.input_names:
                self._readers[name].append(op)
            for name in op.output_names:
                self._writers[name].append(op)

    def __iter__(self) -> Iterator[Operator]:
        return iter(self.ops)

    def var(self, name: str) -> Variable:
        """A variable by its name."""
        return self.block.var(name)

    def writer(self, name: str, type: str) -> Operator | None:
        """The one operator that writes a variable, if it is of a type."""
        writers = self._writers[name]
        return writers[0] if len(writers) == 1 and writers[0].type == type else None

    def is_fetched(self, name: str) -> bool:
        """Whether whoever runs the program wants to see a variable."""
        return name in self._fetches

    def only_reader(self, name: str, *, even_if_fetched: bool = False) -> Operator | None:
        """The one operator that reads a variable which is nobody else's business; None otherwise."""
        readers = self._readers[name]
        if len(readers) != 1 or (name in self._fetches and not even_if_fetched) or self.var(name).persistable:
            return None
        return readers[0] if len(self._writers[name]) == 1 else None

    def private_readers(self, name: str) -> list[Operator]:
        """The operators that read a variable, if nobody but them can see it; else none."""
        if name in self._fetches or self.var(name).persistable or len(self._writers[name]) != 1:
            return []
        return self._readers[name]

    def is_kept(self, names: Iterable[str], first: Operator, last: Operator) -> bool:
        """Whether nobody writes some variables between two operators: the first may move to the last's place."""
        begin, end = self._places[id(first)], self._places[id(last)]
        return not any(begin < self._places[id(op)] < end for name in names for op in self._writers[name])

    def replaced(self, gone: Sequence[Operator], made: dict[int, Operator]) -> list[Operator]:
        """The operators without some, and with others at the place of those whose id they have."""
        ids = {id(op) for op in gone}
        return [made.get(id(op), op) for op in self.ops if id(op) in made or id(op) not in ids]
