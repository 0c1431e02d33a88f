"""A piece: one safetensors file, written in one pass without a copy and read only as a whole.

We write the format ourselves, for the library's writer neither forces a file to the disk, nor sums it on the way, nor
says how much room a full disk lacks; the library reads our files and we read its files. bfloat16 is unknown to numpy:
values of 16 bits travel as uint16, and either the metadata or the dtype's code says what the bits mean.
"""

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from fleet.checkpoint.files.checksum import NEW, checksum
from fleet.checkpoint.files.fields import Fields, parse_json
from fleet.checkpoint.files.files import Bytes, FileInfo, check_size, read_file, reading, write_file
from fleet.checkpoint.files.identity import SAVE, save_id
from fleet.errors import CheckpointError

Arrays: TypeAlias = dict[str, npt.NDArray[Any]]

_DTYPES = {
    np.dtype(dtype): name
    for name, dtype in {
        "I64": "<i8", "U64": "<u8", "F64": "<f8", "F32": "<f4", "I32": "<i4", "U32": "<u4", "F16": "<f2", "I16": "<i2",
        "U16": "<u2", "I8": "i1", "U8": "u1",
    }.items()
}  # fmt: skip
# Types that numpy does not have, or not under a size of its own: read as their bits.
_BITS = {"BF16": "<u2", "BOOL": "u1", "F8_E4M3": "u1", "F8_E5M2": "u1", "C64": "<u8"}
_BY_NAME = {name: dtype for dtype, name in _DTYPES.items()} | {name: np.dtype(bits) for name, bits in _BITS.items()}
_METADATA = "__metadata__"
_SUM = "fleet.checksum"
_ZEROS = f"{NEW}:00000000"
_BEFORE_SUM = f'{{"{_METADATA}":{{"{_SUM}":"'.encode()
_OTHERS = {
    **{bytes([0x80, protocol]): "a pickle, as PaddlePaddle writes" for protocol in range(2, 6)},
    b"PK": "a zip archive with a pickle, as torch.save writes",
}
_MAX_HEADER_BYTES = 100_000_000  # what the library accepts, too


def write_piece(
    path: Path,
    tensors: Mapping[str, npt.NDArray[Any]],
    metadata: Mapping[str, str],
    codes: Mapping[str, str] | None = None,
    *,
    with_sum: bool = False,
) -> FileInfo:
    """Write the tensors into a new file; CheckpointError, and no file, if that fails."""
    save = save_id(path.parent)
    parts, size = encoded(tensors, {**metadata, **({SAVE: save} if save else {})}, codes, with_sum=with_sum)
    return write_file(path, parts, size)


def encoded(
    tensors: Mapping[str, npt.NDArray[Any]],
    metadata: Mapping[str, str],
    codes: Mapping[str, str] | None = None,
    *,
    with_sum: bool = False,
) -> tuple[list[Bytes], int]:
    """The bytes of a file of tensors, in parts, and how many they are.

    `codes` has the format's name of a type for tensors whose array holds only the bits of it. `with_sum`: the metadata
    begins with the checksum of the file, taken as if it were zeros, for a file that no manifest knows.
    """
    # The widest first, so that every tensor begins at a multiple of its item; the format allows no gaps.
    ordered = sorted(tensors.items(), key=lambda item: (-item[1].dtype.itemsize, item[0]))
    header: dict[str, Any] = {_METADATA: {**({_SUM: _ZEROS} if with_sum else {}), **metadata}}
    end = 0
    for name, array in ordered:
        begin, end = end, end + array.nbytes
        code = (codes or {}).get(name) or _DTYPES[array.dtype]
        header[name] = {"dtype": code, "shape": list(array.shape), "data_offsets": [begin, end]}
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    arrays = [np.ascontiguousarray(array) for _, array in ordered]
    length = len(text).to_bytes(8, "little")
    if with_sum:
        text = text.replace(_ZEROS.encode(), checksum(length, text, *arrays).encode(), 1)
    return [length, text, *arrays], 8 + len(text) + end


def read_piece(path: Path, info: FileInfo) -> Arrays:
    """The tensors of a file; CheckpointError naming it unless it is, byte for byte, what was written.

    The arrays are writable views of one buffer that was read in one pass.
    """
    return decode(read_file(path, info), str(path))


def map_piece(path: Path, info: FileInfo) -> Arrays:
    """The tensors of a file that was checked before, in memory that is read from the file where it is touched.

    They may be written to, which changes nothing on the disk.
    """
    with reading(path) as descriptor:
        check_size(path, descriptor, info)
        with open(descriptor, "rb", closefd=False) as file:
            return decode(np.memmap(file, np.uint8, "c"), str(path))


def check_own_sum(data: npt.NDArray[np.uint8], where: str, *, is_needed: bool = False) -> None:
    """CheckpointError if the bytes of a safetensors file say which sum they have, and have another.

    Where a sum `is_needed`, bytes that say nothing are damaged too.
    """
    begin = 8 + len(_BEFORE_SUM)
    end = begin + len(_ZEROS)
    if data[8:begin].tobytes() != _BEFORE_SUM:
        if is_needed:
            raise CheckpointError(f"{where} is damaged: it does not begin with its sum")
        return
    saved = data[begin:end].tobytes().decode("latin1")
    found = checksum(data[:begin], _ZEROS.encode(), data[end:])
    if found != saved:
        raise CheckpointError(f"{where} is damaged: its checksum is {found}, saved was {saved!r}")


def decode(data: npt.NDArray[np.uint8], where: str) -> Arrays:
    """The tensors in the bytes of a safetensors file, as views; nothing in it is believed before it is checked."""
    if len(data) < 8:
        raise CheckpointError(f"{where} is damaged: {len(data)} bytes are no safetensors file")
    length = int.from_bytes(data[:8].tobytes(), "little")
    if length > min(len(data) - 8, _MAX_HEADER_BYTES):
        for beginning, kind in _OTHERS.items():
            if data[: len(beginning)].tobytes() == beginning:
                raise CheckpointError(f"{where} is {kind}, which is never read here; convert it to safetensors first")
        raise CheckpointError(f"{where} is damaged: its header claims {length} bytes of {len(data) - 8}")
    header = parse_json(data[8 : 8 + length].tobytes(), where)
    body = data[8 + length :]
    tensors: Arrays = {}
    spans = []
    for name in header.value:
        if name != _METADATA:
            tensors[name], begin, end = _tensor(Fields(header.value[name], f"{where}, tensor {name!r}"), body)
            spans.append((begin, end))
    at = 0
    for begin, end in sorted(spans):
        if begin != at:
            raise CheckpointError(f"{where} is damaged: tensors overlap or leave a gap at byte {at}")
        at = end
    if at != len(body):
        raise CheckpointError(f"{where} is damaged: tensors cover {at} of {len(body)} bytes")
    return tensors


def metadata_of(data: npt.NDArray[np.uint8], where: str) -> dict[str, str]:
    """What the metadata say of the bytes of a safetensors file that `decode` takes."""
    length = int.from_bytes(data[:8].tobytes(), "little")
    return {name: str(one) for name, one in parse_json(data[8 : 8 + length].tobytes(), where).table(_METADATA).items()}


def _tensor(fields: Fields, body: npt.NDArray[np.uint8]) -> tuple[npt.NDArray[Any], int, int]:
    dtype = _BY_NAME.get(fields.text("dtype"))
    if dtype is None:
        raise CheckpointError(f"{fields.where} is damaged: unknown dtype {fields.text('dtype')!r}")
    shape = fields.integers("shape")
    offsets = fields.integers("data_offsets")
    if len(offsets) != 2 or not offsets[0] <= offsets[1] <= len(body):
        raise CheckpointError(f"{fields.where} is damaged: it lies at {list(offsets)[:4]} of {len(body)} bytes")
    begin, end = offsets
    try:
        if math.prod(shape) * dtype.itemsize != end - begin:
            raise ValueError
        # A foreign file may put a tensor anywhere; the native core wants it aligned.
        array = np.require(body[begin:end].view(dtype), requirements="A").reshape(shape)
    except ValueError:  # numpy's, for shapes such as [0, 2**62, 2**62]
        shown = list(shape)[:8]
        raise CheckpointError(f"{fields.where} is damaged: shape {shown} does not take {end - begin} bytes") from None
    return array, begin, end
