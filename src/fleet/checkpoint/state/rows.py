"""Exported rows as arrays by name: whether they are what their form says, and chosen ones among them."""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from fleet.checkpoint.files.forms import TableForm
from fleet.checkpoint.files.pieces import Arrays
from fleet.errors import CheckpointError

Keys = npt.NDArray[np.int64]


def check_rows(rows: Arrays, form: TableForm, num_rows: int, num_waiting: int, where: str) -> None:
    """Every array that rows of this form have, of the right type and shape, and no other."""
    values = np.float32 if form.dtype == "float32" else np.uint16
    expected: dict[str, tuple[npt.DTypeLike, tuple[int, ...]]] = {
        "values": (values, (num_rows, form.width)),
        "state": (np.float32, (num_rows, form.state_width)),
    }
    for prefix, count in (("", num_rows), ("waiting_", num_waiting)):
        columns: dict[str, Any] = {"keys": np.int64, "seen": np.uint32, "step": np.uint32}
        if form.has_clicks:
            columns |= {"shows": np.float32, "clicks": np.float32}
        expected |= {prefix + column: (dtype, (count,)) for column, dtype in columns.items()}
    if rows.keys() != expected.keys():
        raise CheckpointError(f"{where}: it has the arrays {sorted(rows)}, expected {sorted(expected)}")
    for column, (dtype, shape) in expected.items():
        array = rows[column]
        if array.dtype != dtype or array.shape != shape:
            raise CheckpointError(
                f"{where}: {column} is {array.dtype}{list(array.shape)}, expected {np.dtype(dtype)}{list(shape)}"
            )


def only(rows: dict[str, Any], chosen: Callable[[Keys], npt.NDArray[np.bool_]]) -> dict[str, Any]:
    """The chosen ones among exported rows, and among keys that wait for a row."""
    masks = {False: chosen(rows["keys"]), True: chosen(rows["waiting_keys"]) if "waiting_keys" in rows else None}
    return {name: array[masks[name.startswith("waiting_")]] for name, array in rows.items()}


def among(own: Keys, keys: Keys) -> npt.NDArray[np.bool_]:
    """Which of `own` are among `keys`, which are ascending."""
    if not len(keys):
        return np.zeros(len(own), bool)
    at = np.minimum(np.searchsorted(keys, own), len(keys) - 1)
    found: npt.NDArray[np.bool_] = keys[at] == own
    return found
