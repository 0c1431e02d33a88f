"""Blocks of dense parameters in the flat buffers of a rule, and out of them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from fleet.checkpoint.files.forms import BlockForm

Floats: TypeAlias = npt.NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class BlockData:
    """A block with its values, the arrays of its state (one float per element each) and the state's scalars."""

    block: BlockForm
    values: Floats
    arrays: tuple[Floats, ...]
    scalars: Floats


def state_form(state_width: Callable[[int], int]) -> tuple[int, int]:
    """(arrays, scalars) of a rule, from the floats of state it keeps for n values.

    Two widths tell them apart; one does not: three floats beside one value may be three arrays or two and a scalar.
    """
    arrays = state_width(2) - state_width(1)
    return arrays, state_width(1) - arrays


def split_buffer(blocks: Sequence[BlockForm], values: Floats, state: Floats) -> list[BlockData]:
    """Blocks that lie one after the other in one buffer with one state, as views.

    The state is `arrays` times as many floats as there are values, then the scalars, which all blocks share or which
    stand there for each block, in their order.
    """
    arrays = blocks[0].arrays if blocks else 0
    columns = state[: arrays * len(values)].reshape(arrays, len(values))
    scalars, result, at = state[columns.size :], [], 0
    each = 0 if not blocks or len(scalars) == blocks[0].scalars else blocks[0].scalars
    for number, block in enumerate(blocks):
        span = slice(at, at := at + len(block))
        own = scalars[number * each : (number + 1) * each] if each else scalars
        result.append(BlockData(block, values[span], tuple(column[span] for column in columns), own))
    assert at == len(values), f"blocks of {at} elements in a buffer of {len(values)}"
    return result


def join_buffer(blocks: Sequence[BlockData]) -> tuple[Floats, Floats]:
    """(values, state) of one buffer with these blocks one after the other: the reverse of `split_buffer`."""
    if not blocks:
        return np.zeros(0, np.float32), np.zeros(0, np.float32)
    values = np.concatenate([data.values for data in blocks])
    columns = [np.concatenate(parts) for parts in zip(*(data.arrays for data in blocks), strict=True)]
    first = blocks[0].scalars
    scalars = [first] if all(np.array_equal(data.scalars, first) for data in blocks) else [d.scalars for d in blocks]
    return values, np.concatenate([*columns, *scalars])


def recut(found: Sequence[BlockData], wanted: Sequence[BlockForm]) -> list[BlockData]:
    """The same elements in other blocks; of unequal scalars of its parts, a block takes the longest's."""
    result = []
    for block in wanted:
        parts = [
            (min(data.block.end, block.end) - max(data.block.begin, block.begin), data)
            for data in sorted(found, key=lambda data: data.block.begin)
            if data.block.parameter == block.parameter
        ]
        own = [(length, data) for length, data in parts if length > 0]
        assert sum(length for length, _ in own) == len(block), f"parts of {block.parameter!r} are missing"
        spans = [
            (
                data,
                slice(
                    max(data.block.begin, block.begin) - data.block.begin,
                    min(data.block.end, block.end) - data.block.begin,
                ),
            )
            for _, data in own
        ]
        arrays = tuple(
            np.concatenate([data.arrays[number][span] for data, span in spans]) for number in range(block.arrays)
        )
        values = np.concatenate([data.values[span] for data, span in spans])
        scalars = max(own, key=lambda part: part[0])[1].scalars
        result.append(BlockData(block, values, arrays, scalars))
    return result
