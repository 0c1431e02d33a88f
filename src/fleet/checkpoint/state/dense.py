"""Dense parameters to and from pieces: blocks of elements with their rule's state, loaded into any other cut."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from fleet.checkpoint.files.buffers import BlockData, Floats, copy_common, empty_block, overlap
from fleet.checkpoint.files.forms import BlockForm, DensePiece
from fleet.checkpoint.files.pieces import Arrays, read_piece, write_piece
from fleet.checkpoint.folders.manifest import Manifest
from fleet.checkpoint.state.tables import PIECE_BYTES
from fleet.errors import CheckpointError

_WORDS = {
    "size": "its number of elements",
    "rule": "its rule",
    "arrays": "its rule's state per element",
    "scalars": "its rule's state per block",
}


def save_dense(
    folder: Path, server: int, num_servers: int, blocks: Sequence[BlockData], *, piece_bytes: int = PIECE_BYTES
) -> list[DensePiece]:
    """Write one server's blocks into `folder`, which `begin` made; no copy is made of them.

    They must not change meanwhile. A block larger than `piece_bytes` is cut.
    """
    pieces: list[DensePiece] = []
    for group in _grouped(blocks, piece_bytes):
        name = f"dense.server-{server:03}-of-{num_servers:03}.piece-{len(pieces):04}.safetensors"
        tensors = {key: array for data in group for key, array in _tensors(data).items()}
        metadata = {"kind": "dense", "server": f"{server}/{num_servers}"}
        info = write_piece(folder / name, tensors, metadata)
        pieces.append(DensePiece(info, server, tuple(data.block for data in group)))
    return pieces


def load_dense(manifest: Manifest, folder: Path, blocks: Sequence[BlockForm]) -> list[BlockData]:
    """The wanted blocks, in their order, put together from whatever blocks were saved; each piece is read once.

    Where the parts of a block have unequal scalars, those of the longest part (of several, the first) are taken.
    """
    saved: dict[str, list[tuple[BlockForm, int]]] = {}
    for number, piece in enumerate(manifest.dense):
        for block in piece.blocks:
            saved.setdefault(block.parameter, []).append((block, number))
    result = [empty_block(block) for block in blocks]
    copies: dict[int, list[tuple[BlockForm, BlockData, bool]]] = {}
    for into in result:
        found = sorted(saved.get(into.block.parameter, []), key=lambda item: item[0].begin)
        _check_wanted(into.block, [block for block, _ in found], folder)
        parts = [part for part in found if overlap(part[0], into.block)]
        longest = max(parts, key=lambda part: overlap(part[0], into.block), default=None)
        for part in parts:
            copies.setdefault(part[1], []).append((part[0], into, part is longest))
    for number in sorted(copies):
        tensors = _read(folder, manifest.dense[number])
        for block, into, with_scalars in copies[number]:
            copy_common(_block_in(tensors, block), into, with_scalars=with_scalars)
    return result


def values_of(manifest: Manifest, folder: Path, parameter: str) -> Floats | None:
    """The values of a whole parameter, flat, without its rule's state; None if none of that name was saved."""
    pieces = [piece for piece in manifest.dense if any(block.parameter == parameter for block in piece.blocks)]
    if not pieces:
        return None
    parts: dict[int, Floats] = {}
    for piece in pieces:
        tensors = _read(folder, piece)
        own = (block for block in piece.blocks if block.parameter == parameter)
        parts |= {block.begin: tensors[_key(block, "values")] for block in own}
    return np.concatenate([parts[begin] for begin in sorted(parts)])


def read_blocks(folder: Path, piece: DensePiece) -> list[tuple[BlockForm, Floats]]:
    """The blocks of a piece, each with its values."""
    tensors = _read(folder, piece)
    return [(block, tensors[_key(block, "values")]) for block in piece.blocks]


def _block_in(tensors: Arrays, block: BlockForm) -> BlockData:
    arrays = tuple(tensors[_key(block, f"state{number}")] for number in range(block.arrays))
    return BlockData(block, tensors[_key(block, "values")], arrays, tensors[_key(block, "scalars")])


def _grouped(blocks: Sequence[BlockData], piece_bytes: int) -> Iterator[list[BlockData]]:
    group: list[BlockData] = []
    room = piece_bytes
    for data in blocks:
        each = 4 * (1 + data.block.arrays)
        for part in _cut(data, max(1, piece_bytes // each)):
            size = each * len(part.block) + 4 * data.block.scalars
            if group and size > room:
                yield group
                group, room = [], piece_bytes
            group.append(part)
            room -= size
    if group:
        yield group


def _cut(data: BlockData, length: int) -> Iterator[BlockData]:
    for at in range(0, max(1, len(data.block)), length):
        span = slice(at, min(at + length, len(data.block)))
        block = replace(data.block, begin=data.block.begin + span.start, end=data.block.begin + span.stop)
        yield BlockData(block, data.values[span], tuple(array[span] for array in data.arrays), data.scalars)


def _key(block: BlockForm, what: str) -> str:
    return f"{block.parameter}[{block.begin}:{block.end}].{what}"


def _tensors(data: BlockData) -> Arrays:
    tensors: Arrays = {_key(data.block, "values"): data.values, _key(data.block, "scalars"): data.scalars}
    tensors |= {_key(data.block, f"state{number}"): array for number, array in enumerate(data.arrays)}
    _check_tensors(tensors, data.block, f"parameter {data.block.parameter!r}")
    return tensors


def _read(folder: Path, piece: DensePiece) -> Arrays:
    tensors = read_piece(folder / piece.file.name, piece.file)
    for block in piece.blocks:
        _check_tensors(tensors, block, f"{folder / piece.file.name} is damaged")
    return tensors


def _check_tensors(tensors: Arrays, block: BlockForm, where: str) -> None:
    expected = {_key(block, f"state{number}"): len(block) for number in range(block.arrays)}
    expected |= {_key(block, "values"): len(block), _key(block, "scalars"): block.scalars}
    for key, length in expected.items():
        array = tensors.get(key)
        if array is None or array.dtype != np.float32 or array.shape != (length,):
            found = "nothing" if array is None else f"{array.dtype}{list(array.shape)}"
            raise CheckpointError(f"{where}: {key} should be float32[{length}], found {found}")


def _check_wanted(block: BlockForm, saved: Sequence[BlockForm], folder: Path) -> None:
    if not saved:
        raise CheckpointError(f"{folder} has no dense parameter {block.parameter!r}; load it into the model it is from")
    for found in saved:
        for field in ("size", "rule", "arrays", "scalars"):
            here, there = getattr(block, field), getattr(found, field)
            if here != there:
                raise CheckpointError(
                    f"parameter {block.parameter!r} does not fit {folder}: {_WORDS[field]} is {here!r} here and "
                    f"{there!r} in the checkpoint; give it the shape and the optimizer it was saved with"
                )
