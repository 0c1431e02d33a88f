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


def empty_block(block: BlockForm) -> BlockData:
    """A block of zeros, for values to be copied into."""
    columns = tuple(np.zeros(len(block), np.float32) for _ in range(block.arrays))
    return BlockData(block, np.zeros(len(block), np.float32), columns, np.zeros(block.scalars, np.float32))


def overlap(one: BlockForm, other: BlockForm) -> int:
    """How many elements two blocks of one parameter have in common."""
    return max(0, min(one.end, other.end) - max(one.begin, other.begin))


def copy_common(found: BlockData, into: BlockData, *, with_scalars: bool) -> None:
    """Copy what two blocks of one parameter have in common."""
    begin, length = max(found.block.begin, into.block.begin), overlap(found.block, into.block)
    source, target = (slice(begin - one.block.begin, begin - one.block.begin + length) for one in (found, into))
    into.values[target] = found.values[source]
    for own, theirs in zip(into.arrays, found.arrays, strict=True):
        own[target] = theirs[source]
    if with_scalars:
        into.scalars[:] = found.scalars


def recut(found: Sequence[BlockData], wanted: Sequence[BlockForm]) -> list[BlockData]:
    """The same elements in other blocks; of unequal scalars of its parts, a block takes the longest's."""
    result = [empty_block(block) for block in wanted]
    for into in result:
        block = into.block
        same = sorted((one for one in found if one.block.parameter == block.parameter), key=lambda one: one.block.begin)
        own = [one for one in same if overlap(one.block, block)]
        assert sum(overlap(one.block, block) for one in own) == len(block), f"parts of {block.parameter!r} are missing"
        longest = max(own, key=lambda one: overlap(one.block, block), default=None)
        for one in own:
            copy_common(one, into, with_scalars=one is longest)
    return result
