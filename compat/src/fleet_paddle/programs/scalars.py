"""Which variables of a program are single numbers, though a program gives them the shape [1], and fetches without it.

A number comes from an operator that leaves no dimension (`mean`, a reduction over all), or from operators over numbers
alone. A bias of one value, a constant of shape [1] and what was reshaped to it are vectors.
"""

from __future__ import annotations

from typing import Any

from fleet.static.block import Block
from fleet.static.executor.executor import Executor
from fleet.static.executor.steps import plain
from fleet.static.operator import Operator
from fleet.static.ops.reduce import dims_of
from fleet.static.program import default_main_program
from fleet.static.variable import Variable

MAX_KNOWN = 64
"""Programs and fetches whose numbers an executor remembers."""

WHOLE = frozenset({"mean", "accuracy", "auc", "isfinite", "isinf", "isnan"})
"""Types whose results of shape [1] are always numbers."""

SHAPING = frozenset(
    {"concat", "expand", "one_hot", "one_hot_v2", "pad", "reshape", "reshape2", "stack", "unsqueeze", "unsqueeze2"}
)
"""Types that are asked for a shape: a result of shape [1] is meant."""


def scalars(block: Block) -> frozenset[str]:
    """The names of the numbers of a block."""
    found: set[str] = set()
    for op in block.ops:
        if _makes_number(op, block, found):
            found |= {name for name in op.output_names if _has_one(block, name)}
    return frozenset(found)


def _has_one(block: Block, name: str) -> bool:
    var = block.var(name)
    return var.shape == (1,) and not var.persistable


def _makes_number(op: Operator, block: Block, known: set[str]) -> bool:
    if op.type in WHOLE:
        return True
    ranks = [block.var(name).ndim for name in op.input_names]
    if op.type.startswith("reduce_"):
        return not op.attr("keep_dim") and len(dims_of(op, ranks[0])) == ranks[0]
    if op.type == "kldiv_loss":
        return bool(op.attr("reduction") != "none")
    if op.type == "matmul":
        return ranks == [1, 1]
    return op.type not in SHAPING and bool(op.input_names) and known.issuperset(op.input_names)


class ScalarExecutor(Executor):
    """An Executor that gives back a single number with shape [], where Executor gives [1]."""

    def __init__(self, place: object = None) -> None:
        super().__init__(place)
        self._numbers: dict[tuple[Any, ...], tuple[int, ...]] = {}

    def run(self, program: Any = None, feed: Any = None, fetch_list: Any = None, *args: Any, **named: Any) -> Any:
        """Run a program once; see `Executor.run`."""
        program = default_main_program() if program is None else program
        results = super().run(program, feed, fetch_list, *args, **named)
        for index in self._numbers_of(program, fetch_list):
            results[index] = results[index].reshape(())
        return results

    def _numbers_of(self, program: Any, fetch_list: Any) -> tuple[int, ...]:
        if fetch_list is None:
            return ()
        several = [fetch_list] if isinstance(fetch_list, Variable | str) else fetch_list
        names = tuple([one if isinstance(one, str) else one.name for one in several])
        key = (program.serial, program.version, names)
        known = self._numbers.get(key)
        if known is None:
            if len(self._numbers) >= MAX_KNOWN:
                self._numbers.clear()
            numbers = scalars(plain(program).global_block())
            known = self._numbers[key] = tuple(index for index, name in enumerate(names) if name in numbers)
        return known
