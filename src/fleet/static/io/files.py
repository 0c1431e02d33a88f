"""Tensors in files that any program can read: numpy's format, one file each, or safetensors, all in one.

A file is whole or not there: it is written beside its place, forced to the disk and renamed; the renaming begins when
all files of a save are on the disk, so that a full disk leaves the save before it as it was. numpy has no bfloat16:
such values are written as float32, which holds them exactly, and narrowed when they are loaded.
"""

from __future__ import annotations

import io
import math
import os
import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt
import torch

from fleet.checkpoint.fields import parse_json
from fleet.checkpoint.files import reading, sync_folder, why_not_written, write_file
from fleet.checkpoint.names import file_name_of
from fleet.checkpoint.pieces import decode, write_piece
from fleet.errors import CheckpointError, UsageError, UsageTypeError
from fleet.static.dtypes import canonical, torch_dtype
from fleet.static.variable import Variable

_BITS = {"bfloat16": (torch.uint16, "BF16"), "bool": (torch.uint8, "BOOL")}
"""Types of safetensors that numpy lacks, or that the writer takes as their bits."""

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
        if filename is not None:
            replacing.safetensors(filename, tensors)
            return
        for name, tensor in tensors.items():
            _write_npy(replacing.path(f"{file_name_of(name)}.npy"), tensor)


def write_text(folder: Path, filename: str, text: str) -> None:
    """Write a text file in UTF-8."""
    with Replacing(folder) as replacing:
        replacing.text(filename, text)


class Replacing:
    """Files of a folder that are replaced together: `path` says where to write one; at the end all get their names."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._names: dict[str, Path] = {}

    def __enter__(self) -> Replacing:
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise CheckpointError(why_not_written(self._folder, error, 0)) from error
        return self

    def path(self, name: str) -> Path:
        """Where to write the new file `name` until all are complete."""
        self._names[name] = self._folder / f".{name}.writing-{secrets.token_hex(4)}"
        return self._names[name]

    def safetensors(self, name: str, tensors: Mapping[str, torch.Tensor]) -> None:
        """Write one file of several tensors."""
        kinds = {name: canonical(tensor.dtype) for name, tensor in tensors.items()}
        codes = {name: _BITS[kind][1] for name, kind in kinds.items() if kind in _BITS}
        arrays = {name: _bits(tensor) for name, tensor in tensors.items()}
        write_piece(self.path(name), arrays, {"format": "pt"}, codes)

    def text(self, name: str, text: str) -> None:
        """Write a text file in UTF-8."""
        data = text.encode()
        write_file(self.path(name), [data], len(data))

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        try:
            if error is None:
                for name, path in self._names.items():
                    os.replace(path, self._folder / name)
                sync_folder(self._folder)
        except OSError as refused:
            raise CheckpointError(why_not_written(self._folder, refused, 0)) from refused
        finally:
            for path in self._names.values():
                path.unlink(missing_ok=True)


def read_tensors(folder: Path, wanted: Sequence[Variable], filename: str | None) -> dict[str, torch.Tensor]:
    """The values of some variables; CheckpointError names what is missing, damaged or of another shape or type."""
    if not folder.is_dir():
        raise CheckpointError(f"there is no folder {folder}; give the one that was saved to")
    if filename is not None:
        return _read_whole(folder / filename, wanted)
    return {var.name: _read_npy(folder, var) for var in wanted}


def _bits(tensor: torch.Tensor) -> npt.NDArray[Any]:
    tensor = tensor.detach().cpu().contiguous()
    kind = canonical(tensor.dtype)
    return (tensor.view(_BITS[kind][0]) if kind in _BITS else tensor).numpy()


def _write_npy(path: Path, tensor: torch.Tensor) -> None:
    tensor = tensor.detach().cpu().contiguous()
    array: npt.NDArray[Any] = (tensor.float() if tensor.dtype == torch.bfloat16 else tensor).numpy()
    header = io.BytesIO()
    description = {"descr": array.dtype.str, "fortran_order": False, "shape": array.shape}
    np.lib.format.write_array_header_1_0(header, description)
    write_file(path, [header.getvalue(), array], header.tell() + array.nbytes)


def _read_npy(folder: Path, var: Variable) -> torch.Tensor:
    path = folder / f"{file_name_of(var.name)}.npy"
    if not path.exists():
        raise CheckpointError(
            f"variable {var.name!r} is not in {folder}: there is no {path.name}; load what was saved of this program"
        )
    with reading(path) as descriptor, open(descriptor, "rb", closefd=False) as file:
        try:
            shape, in_columns, dtype = _header(file)
        except ValueError as error:
            raise CheckpointError(f"{path} is damaged: {error}") from None
        stored = "float32" if var.dtype == "bfloat16" else var.dtype
        _fits(path, var, dtype.name, shape, stored)
        count = math.prod(shape)
        if os.fstat(descriptor).st_size != file.tell() + count * dtype.itemsize:
            raise CheckpointError(f"{path} is damaged: it has too few or too many bytes for shape {list(shape)}")
        array = np.fromfile(file, dtype, count)
    array = array.astype(dtype.newbyteorder("="), copy=False).reshape(shape, order="F" if in_columns else "C")
    return torch.from_numpy(np.ascontiguousarray(array)).to(torch_dtype(var.dtype))


def _header(file: BinaryIO) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    version = np.lib.format.read_magic(file)
    if version == (1, 0):
        return np.lib.format.read_array_header_1_0(file)
    if version == (2, 0):
        return np.lib.format.read_array_header_2_0(file)
    raise ValueError(f"version {version} of the npy format")


def _read_whole(path: Path, wanted: Sequence[Variable]) -> dict[str, torch.Tensor]:
    if not path.exists():
        raise CheckpointError(f"there is no file {path.name} in {path.parent}; give the filename that was saved to")
    tensors = read_safetensors(path)
    for var in wanted:
        if var.name not in tensors:
            raise CheckpointError(f"variable {var.name!r} is not in {path}; load what was saved of this program")
        tensor = tensors[var.name]
        _fits(path, var, str(tensor.dtype).removeprefix("torch."), tuple(tensor.shape), var.dtype)
    return {var.name: tensors[var.name].clone() for var in wanted}


def read_safetensors(path: Path) -> dict[str, torch.Tensor]:
    """The tensors of a safetensors file, by name; they are views of it, so clone those to keep.

    CheckpointError if it is damaged. Types that torch lacks come as their bits.
    """
    with reading(path) as descriptor, open(descriptor, "rb", closefd=False) as file:
        data = np.memmap(file, np.uint8, "c") if os.fstat(descriptor).st_size else np.zeros(0, np.uint8)
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
