"""Tensors that servers only keep, to and from pieces; a tensor that was trained when it was saved is found as well."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from fleet.checkpoint.files.forms import Form, KeptPiece
from fleet.checkpoint.files.pieces import read_piece, write_piece
from fleet.checkpoint.folders.manifest import Manifest
from fleet.checkpoint.state.dense import values_of
from fleet.errors import CheckpointError


def save_kept(
    folder: Path, server: int, num_servers: int, tensors: Sequence[tuple[str, Form, npt.NDArray[Any]]]
) -> list[KeptPiece]:
    """Write the tensors that one server keeps, given with their bits, into one file; no file if there are none."""
    if not tensors:
        return []
    name = f"kept.server-{server:03}-of-{num_servers:03}.safetensors"
    arrays = {key: bits.reshape(form.shape) for key, form, bits in tensors}
    codes = {key: form.code for key, form, _ in tensors}
    info = write_piece(folder / name, arrays, {"kind": "kept", "server": f"{server}/{num_servers}"}, codes)
    return [KeptPiece(info, server, tuple((key, form) for key, form, _ in tensors))]


def load_kept(
    manifest: Manifest,
    folder: Path,
    wanted: Sequence[tuple[str, Form]],
    present: Mapping[str, npt.NDArray[Any]] | None = None,
) -> list[npt.NDArray[Any]]:
    """The bits of the wanted tensors, in their order; of one that was trained when it was saved, its values.

    Those of which `present` has bits may be missing, or of another form: then they stay as they are.
    """
    saved = {key: (piece, form) for piece in manifest.kept for key, form in piece.tensors}
    found: dict[str, npt.NDArray[Any]] = {}
    for piece in {saved[key][0] for key, _ in wanted if key in saved}:
        arrays = read_piece(folder / piece.file.name, piece.file)
        for key, form in piece.tensors:
            if key not in arrays or (arrays[key].dtype, arrays[key].shape) != (form.bits, form.shape):
                raise CheckpointError(f"{folder / piece.file.name} is damaged: {key!r} should be {form}")
            found[key] = arrays[key]
    result = []
    for key, form in wanted:
        if present and key in present and (key not in saved or saved[key][1] != form):
            result.append(present[key])
        elif key in saved:
            _check(key, saved[key][1], form, folder)
            result.append(found[key])
        else:
            result.append(_trained(manifest, folder, key, form))
    return result


def _trained(manifest: Manifest, folder: Path, key: str, form: Form) -> npt.NDArray[Any]:
    values = values_of(manifest, folder, key)
    if values is None:
        raise CheckpointError(f"{folder} has no {key!r}, which this model has; load it into the model it is of")
    there = Form("float32", form.shape if values.size == form.size else values.shape)
    _check(key, there, form, folder)
    return values.reshape(form.shape)


def _check(key: str, saved: Form, wanted: Form, folder: Path) -> None:
    if saved != wanted:
        raise CheckpointError(f"{folder}: {key!r} is {saved} there and {wanted} here; load it into the model it is of")


def kept_values(manifest: Manifest, folder: Path, key: str) -> npt.NDArray[np.float32] | None:
    """The values of a tensor that was kept when it was saved, flat; None if there is none of that name."""
    for piece in manifest.kept:
        for name, form in piece.tensors:
            if name == key:
                if form.dtype != "float32":
                    raise CheckpointError(f"{folder}: {key!r} is {form} there, and is trained as float32 here")
                return read_piece(folder / piece.file.name, piece.file)[key].reshape(-1)
    return None
