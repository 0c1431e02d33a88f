"""`load_program_state` and `set_program_state`: saved values as arrays by name, for scripts that look at them first."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import numpy as np
import numpy.typing as npt
import torch

from fleet.errors import CheckpointError, UsageError
from fleet_programs.definition.dtypes import torch_dtype
from fleet_programs.executor.scope import global_scope
from fleet_programs.io.files import read_npy, read_safetensors
from fleet_programs.io.listing import Listing
from fleet_programs.io.variables import is_of_servers, is_persistable, program_of
from fleet_programs.io.whole import PARAMETERS, STATE
from fleet_programs.program.program import Program
from fleet_programs.program.variable import Variable

Arrays = dict[str, npt.NDArray[Any]]

_log = logging.getLogger(f"fleet.{__name__}")  # below Fleet, which shows what it logs


def load_program_state(model_path: str | os.PathLike[str], var_list: Iterable[Variable | str] | None = None) -> Arrays:
    """The values under a path: what `save` wrote there, a folder of `save_persistables` and its kin, or one file.

    `var_list` chooses some of them; CheckpointError names one that is not there.
    """
    path = Path(model_path)
    found: Arrays = {}
    if path.is_dir():
        if is_of_servers(path):
            raise CheckpointError(f"{path} was written by servers; load it with load_persistables()")
        listing = Listing.of(path)
        files = {file.name for file in path.glob("*.npy")} | {name for name in listing.files if name.endswith(".npy")}
        found = {unquote(name.removesuffix(".npy")): read_npy(listing, name) for name in sorted(files)}
    else:
        parts = [path] if path.is_file() else [path.with_name(path.name + end) for end in (PARAMETERS, STATE)]
        for part in parts:
            if part.is_file():
                found |= {name: _plain(tensor) for name, tensor in read_safetensors(part).items()}
    if not found:
        raise CheckpointError(f"{path} holds no variables; give the path or the folder that was saved to")
    if var_list is None:
        return found
    names = [one if isinstance(one, str) else one.name for one in var_list]
    for name in names:
        if name not in found:
            raise CheckpointError(f"variable {name!r} is not in {path}; leave it out of var_list")
    return {name: found[name] for name in names}


def set_program_state(program: Program, state_dict: Mapping[str, Any]) -> None:
    """Give the variables that a program keeps from run to run these values; nothing is set unless all of them fit.

    What the program does not have is left out, which is said in the log.
    """
    kept = {var.name: var for var in program_of(program).list_vars() if is_persistable(var)}
    values = {name: _fitting(kept[name], value) for name, value in state_dict.items() if name in kept}
    scope = global_scope()
    for name, tensor in values.items():
        scope.var(name).get_tensor().set(tensor)
    unknown = [name for name in state_dict if name not in kept]
    if unknown:
        _log.warning("the program has no variables %s, so their values are left out", ", ".join(unknown))


def _fitting(var: Variable, value: Any) -> torch.Tensor:
    array = np.asarray(value)
    if tuple(var.shape) != array.shape:
        raise UsageError(f"variable {var.name!r} has shape {list(var.shape)}, got {list(array.shape)}; reshape it")
    stored = "float32" if var.dtype == "bfloat16" else var.dtype
    if array.dtype != stored:
        raise UsageError(f"variable {var.name!r} is {var.dtype}, got {array.dtype}; convert it")
    return torch.from_numpy(array.copy()).to(torch_dtype(var.dtype))


def _plain(tensor: torch.Tensor) -> npt.NDArray[Any]:
    found: npt.NDArray[Any] = (tensor.float() if tensor.dtype is torch.bfloat16 else tensor).numpy().copy()
    return found
