"""Tensors in files that any program can read: numpy's format, one file each, or safetensors, all in one.

A file is whole or not there: it is written beside its place, forced to the disk and renamed. The files of a save take
their places together, with their checksums in the folder's side file (`fleet_programs.io.listing`), which is compared
when they are read. numpy has no bfloat16: such values are written as float32, which holds them exactly, and narrowed
when they are loaded.
"""

from __future__ import annotations

import io
import math
import os
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from tokenize import TokenError
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt
import torch

from fleet.checkpoint.files.fields import parse_json
from fleet.checkpoint.files.files import FileInfo, reading, why_not_written, write_file
from fleet.checkpoint.files.names import file_name_of
from fleet.checkpoint.files.pieces import check_own_sum, decode, write_piece
from fleet.checkpoint.folders.turns import turn
from fleet.errors import CheckpointError, UsageError, UsageTypeError
from fleet_programs.definition.dtypes import canonical, torch_dtype
from fleet_programs.io.listing import Listed, Listing, listed_with
from fleet_programs.program.variable import Variable

_BITS = {"bfloat16": (torch.uint16, "BF16"), "bool": (torch.uint8, "BOOL")}
"""Types of safetensors that numpy lacks, or that the writer takes as their bits."""

_LONGEST_HEADER = 1 << 16  # that of an array with a long list of fields is refused by its type

_MEANT = {code: torch_dtype(kind) for kind, (_, code) in _BITS.items()}


def folder_of(dirname: str | os.PathLike[str]) -> Path:
    """The folder that a user named."""
    try:
        folder = Path(dirname)
    except TypeError:
        raise UsageTypeError(f"dirname must be the name of a folder, got {dirname!r}") from None
    return folder


def checked_filename(filename: str | None, what: str = "filename") -> str | None:
    """A name of a file in a folder, not of one elsewhere; None stays None."""
    if filename is not None and (not filename or Path(filename).name != filename):
        raise UsageError(
            f"{what} must be the name of a file without its folder, got {filename!r}; dirname has the folder"
        )
    return filename


def write_tensors(folder: Path, tensors: Mapping[str, torch.Tensor], filename: str | None) -> None:
    """Write tensors by name: a file `NAME.npy` for each, or one safetensors file."""
    with Replacing(folder) as replacing:
        replacing.tensors(tensors, filename)


def write_alone(path: Path, tensors: Mapping[str, torch.Tensor]) -> None:
    """Write one safetensors file that may be moved and copied: its checksum is in it, and it needs no side file."""
    with Replacing(path.parent, is_alone=True) as replacing:
        replacing.tensors(tensors, path.name)


class Replacing:
    """Files of a folder that are replaced together: written beside their places, at the end all get their names."""

    def __init__(self, folder: Path, *, is_alone: bool = False) -> None:
        """`is_alone`: the folder gets no side file for them, unless it has one."""
        self._folder = folder
        self._is_alone = is_alone
        self._id = secrets.token_hex(4)
        self._written: dict[str, Listed] = {}

    def __enter__(self) -> Replacing:
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise CheckpointError(why_not_written(self._folder, error, 0)) from error
        return self

    def tensors(self, tensors: Mapping[str, torch.Tensor], filename: str | None) -> None:
        """Write a file `NAME.npy` for each tensor, or one safetensors file."""
        if filename is not None:
            self._write(filename, partial(_write_safetensors, tensors))
            return
        for name, tensor in tensors.items():
            self._write(f"{file_name_of(name)}.npy", partial(_write_npy, tensor))

    def text(self, name: str, text: str) -> None:
        """Write a text file in UTF-8."""
        self.data(name, text.encode())

    def data(self, name: str, data: bytes) -> None:
        """Write a file of these bytes."""
        self._write(name, lambda path: write_file(path, [data], len(data)))

    def _write(self, name: str, write: Callable[[Path], FileInfo]) -> None:
        written_as = f".{name}.writing-{self._id}"
        info = write(self._folder / written_as)
        self._written[name] = Listed(replace(info, name=name), written_as)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        try:
            if error is None:
                with turn(self._folder):
                    listing = listed_with(self._folder, self._written, begin=not self._is_alone)
                    self._written = {}  # what is listed must not be deleted any more
                    listing.finish()
        except OSError as refused:
            if isinstance(refused, CheckpointError):
                raise
            raise CheckpointError(why_not_written(self._folder, refused, 0)) from refused
        finally:
            for listed in self._written.values():
                (self._folder / listed.written_as).unlink(missing_ok=True)


def read_tensors(folder: Path, wanted: Sequence[Variable], filename: str | None) -> dict[str, torch.Tensor]:
    """The values of some variables; CheckpointError names what is missing, damaged or of another shape or type."""
    if not folder.is_dir():
        raise CheckpointError(f"there is no folder {folder}; give the one that was saved to")
    listing = Listing.of(folder)
    if filename is not None:
        return _read_whole(listing, filename, wanted)
    return {var.name: _read_npy(listing, var) for var in wanted}


def read_text(folder: Path, name: str) -> str:
    """A text file in UTF-8; FileNotFoundError if it is not there."""
    listing = Listing.of(folder)
    if not (path := listing.place(name)[0]).exists():
        raise FileNotFoundError(path)
    data = listing.read(name)
    return path.read_text(encoding="utf-8") if data is None else data.tobytes().decode()


def _bits(tensor: torch.Tensor) -> npt.NDArray[Any]:
    tensor = tensor.detach().cpu().contiguous()
    kind = canonical(tensor.dtype)
    return (tensor.view(_BITS[kind][0]) if kind in _BITS else tensor).numpy()


def _write_safetensors(tensors: Mapping[str, torch.Tensor], path: Path) -> FileInfo:
    kinds = {name: canonical(tensor.dtype) for name, tensor in tensors.items()}
    codes = {name: _BITS[kind][1] for name, kind in kinds.items() if kind in _BITS}
    arrays = {name: _bits(tensor) for name, tensor in tensors.items()}
    return write_piece(path, arrays, {"format": "pt"}, codes, with_sum=True)


def _write_npy(tensor: torch.Tensor, path: Path) -> FileInfo:
    tensor = tensor.detach().cpu().contiguous()
    array: npt.NDArray[Any] = (tensor.float() if tensor.dtype == torch.bfloat16 else tensor).numpy()
    header = io.BytesIO()
    description = {"descr": array.dtype.str, "fortran_order": False, "shape": array.shape}
    np.lib.format.write_array_header_1_0(header, description)
    return write_file(path, [header.getvalue(), array], header.tell() + array.nbytes)


def _read_npy(listing: Listing, var: Variable) -> torch.Tensor:
    name = f"{file_name_of(var.name)}.npy"
    path, _ = listing.place(name)
    if not path.exists():
        raise CheckpointError(
            f"variable {var.name!r} is not in {listing.folder}: there is no {name}; load what was saved of this program"
        )
    array = read_npy(listing, name, lambda dtype, shape: _fits(path, var, dtype, shape, _stored(var)))
    return torch.from_numpy(np.ascontiguousarray(array)).to(torch_dtype(var.dtype))


def read_npy(
    listing: Listing, name: str, fits: Callable[[str, tuple[int, ...]], None] = lambda _dtype, _shape: None
) -> npt.NDArray[Any]:
    """The array in a file of a folder; `fits` may refuse its type and shape."""
    path, data = _bytes_of(listing, name)
    header = io.BytesIO(data[:_LONGEST_HEADER].tobytes())
    try:
        shape, in_columns, dtype = _header(header)
    except (ValueError, SyntaxError, TokenError) as error:  # numpy lets some of Python's own through
        raise CheckpointError(f"{path} is damaged: {' '.join(str(error).split())}") from None
    fits(dtype.name, shape)
    if dtype.hasobject:
        raise CheckpointError(f"{path} holds Python objects, which are never read here")
    if len(data) != header.tell() + math.prod(shape) * dtype.itemsize:
        raise CheckpointError(f"{path} is damaged: it has too few or too many bytes for shape {list(shape)}")
    array: npt.NDArray[Any] = np.frombuffer(data[header.tell() :], dtype).astype(dtype.newbyteorder("="))
    return array.reshape(shape, order="F" if in_columns else "C")


def _bytes_of(listing: Listing, name: str) -> tuple[Path, npt.NDArray[np.uint8]]:
    """Where a file is and all its bytes, compared; those of one that nobody listed are read where they are touched."""
    path, data = listing.place(name)[0], listing.read(name)
    if data is None:
        with reading(path) as descriptor, open(descriptor, "rb", closefd=False) as file:
            data = np.memmap(file, np.uint8, "c") if os.fstat(descriptor).st_size else np.zeros(0, np.uint8)
    return path, data


def _stored(var: Variable) -> str:
    return "float32" if var.dtype == "bfloat16" else var.dtype


def _header(file: BinaryIO) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    version = np.lib.format.read_magic(file)
    if version == (1, 0):
        return np.lib.format.read_array_header_1_0(file)
    if version == (2, 0):
        return np.lib.format.read_array_header_2_0(file)
    raise ValueError(f"version {version} of the npy format")


def _read_whole(listing: Listing, filename: str, wanted: Sequence[Variable]) -> dict[str, torch.Tensor]:
    path, _ = listing.place(filename)
    if not path.exists():
        raise CheckpointError(f"there is no file {filename} in {listing.folder}; give the filename that was saved to")
    tensors = read_safetensors(listing.folder / filename, listing)
    for var in wanted:
        if var.name not in tensors:
            raise CheckpointError(f"variable {var.name!r} is not in {path}; load what was saved of this program")
        tensor = tensors[var.name]
        _fits(path, var, str(tensor.dtype).removeprefix("torch."), tuple(tensor.shape), var.dtype)
    return {var.name: tensors[var.name].clone() for var in wanted}


def read_safetensors(path: Path, listing: Listing | None = None) -> dict[str, torch.Tensor]:
    """The tensors of a safetensors file, by name; they may be views of it, so clone those to keep.

    CheckpointError if it is damaged. Types that torch lacks come as their bits.
    """
    listing = Listing.of(path.parent) if listing is None else listing
    path, data = _bytes_of(listing, path.name)
    check_own_sum(data, str(path))
    arrays = decode(data, str(path))
    header = parse_json(data[8 : 8 + int.from_bytes(data[:8].tobytes(), "little")].tobytes(), str(path)).value
    found = {}
    for name, array in arrays.items():
        bits, tensor = _MEANT.get(header[name]["dtype"]), torch.from_numpy(array)
        found[name] = tensor if bits is None else tensor.view(bits)
    return found


def _fits(path: Path, var: Variable, dtype: str, shape: tuple[int, ...], stored: str) -> None:
    fits = len(shape) == len(var.shape) and all(w in (-1, size) for w, size in zip(var.shape, shape, strict=True))
    if dtype != stored or not fits:
        raise CheckpointError(
            f"{path} holds {dtype}{list(shape)}, but variable {var.name!r} is {var.dtype}{list(var.shape)}; "
            "load it into the program that it was saved of"
        )
