"""The calls that load: what Fleet saved, or what PaddlePaddle saved, whichever is there.

Fleet's files are JSON, numpy's format and safetensors; PaddlePaddle's are messages, pickles and variables without
names. The first bytes tell one from the other.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from fleet.errors import CheckpointError
from fleet_paddle.foreign.pickled import is_pickle, read_pickle
from fleet_paddle.foreign.programs import read_program
from fleet_paddle.foreign.tensors import read_all, read_one
from fleet_programs import io as own
from fleet_programs.definition.dtypes import torch_dtype
from fleet_programs.executor.executor import Executor
from fleet_programs.io.files import checked_filename, folder_of
from fleet_programs.io.inference import MODEL
from fleet_programs.io.variables import assign, check_executor, chosen, is_parameter, is_persistable, program_of
from fleet_programs.program.program import Program
from fleet_programs.program.variable import Variable

PARAMETERS, STATE = ".pdparams", ".pdopt"
NAME_TABLE = "StructuredToParameterName@@"
"""Where a dict of a layer says what its parameters were called: they are found by their place."""

Arrays = dict[str, npt.NDArray[Any]]
Folder = str | os.PathLike[str]


def head(path: Path, count: int = 16) -> bytes:
    """The first bytes of a file; none where there is no file."""
    try:
        with path.open("rb") as file:
            return file.read(count)
    except OSError:
        return b""


def load_inference_model(
    dirname: Folder,
    executor: Executor,
    model_filename: str | None = None,
    params_filename: str | None = None,
    pserver_endpoints: Any = None,
) -> list[Any]:
    """What `save_inference_model` saved: [program, names of feeds, target variables]; parameters go to the scope."""
    folder = folder_of(dirname)
    model = folder / (checked_filename(model_filename, "model_filename") or MODEL)
    begin = head(model)
    if not begin or begin.lstrip()[:1] == b"{":
        return own.load_inference_model(dirname, executor, model_filename, params_filename, pserver_endpoints)
    check_executor(executor)
    program, feeds, fetches = read_program(model)
    kept = [var for var in program.list_vars() if is_persistable(var)]
    assign(_tensors(folder, kept, params_filename), executor.device)
    return [program, feeds, [program.global_block().var(name) for name in fetches]]


def load_vars(
    executor: Executor,
    dirname: Folder,
    main_program: Program | None = None,
    vars: Iterable[Variable | str] | None = None,
    predicate: Any = None,
    filename: str | None = None,
) -> None:
    """Load variables of a program: all of them, or none where one is missing or does not fit."""
    folder, program = folder_of(dirname), program_of(main_program)
    wanted = chosen(program, vars, predicate)
    if not _is_foreign(folder, wanted, filename):
        own.load_vars(executor, dirname, main_program, vars, predicate, filename)
        return
    check_executor(executor)
    assign(_tensors(folder, wanted, filename), executor.device)


def load_params(
    executor: Executor, dirname: Folder, main_program: Program | None = None, filename: str | None = None
) -> None:
    """Load the parameters of a program."""
    load_vars(executor, dirname, main_program, predicate=is_parameter, filename=filename)


def load_persistables(
    executor: Executor, dirname: Folder, main_program: Program | None = None, filename: str | None = None
) -> None:
    """Load everything that training goes on from."""
    kept = chosen(program_of(main_program), None, is_persistable)
    if _is_foreign(folder_of(dirname), kept, filename):
        load_vars(executor, dirname, main_program, predicate=is_persistable, filename=filename)
    else:
        own.load_persistables(executor, dirname, main_program, filename)


def load(
    program: Program,
    model_path: Folder,
    executor: Executor | None = None,
    var_list: Iterable[Variable | str] | None = None,
) -> None:
    """Load what `save(program, model_path)` saved, or only `var_list` of it."""
    if not is_pickle(head(_ending(model_path, PARAMETERS))):
        own.load(program, model_path, executor, var_list)
        return
    program = program_of(program)
    wanted = chosen(program, var_list, None if var_list is not None else is_persistable)
    found = _states(model_path)
    device = torch.device("cpu") if executor is None else executor.device
    assign({var.name: _fitting(var, _of(found, var, model_path), str(model_path)) for var in wanted}, device)


def load_program_state(model_path: Folder, var_list: Iterable[Variable | str] | None = None) -> Arrays:
    """The values under a path as arrays by name."""
    if not is_pickle(head(_ending(model_path, PARAMETERS))):
        return own.load_program_state(model_path, var_list)
    found = _states(model_path)
    if var_list is None:
        return found
    names = [one if isinstance(one, str) else one.name for one in var_list]
    for name in names:
        if name not in found:
            raise CheckpointError(f"variable {name!r} is not in {model_path}; leave it out of var_list")
    return {name: found[name] for name in names}


def _ending(path: Folder, ending: str) -> Path:
    return Path(os.fspath(path) + ending)


def _states(model_path: Folder) -> Arrays:
    """The arrays of both files of a program that was saved."""
    found: Arrays = {}
    for ending in (PARAMETERS, STATE):
        path = _ending(model_path, ending)
        if is_pickle(head(path)):
            read = read_pickle(path)
            if not isinstance(read, dict):
                raise CheckpointError(f"{path} holds a {type(read).__name__}, and a dict of arrays was expected")
            found |= {name: one for name, one in read.items() if isinstance(one, np.ndarray)}
    return found


def _of(found: Mapping[str, Any], var: Variable, place: object) -> npt.NDArray[Any]:
    if var.name not in found:
        raise CheckpointError(f"variable {var.name!r} is not in {place}; load what was saved of this program")
    value: npt.NDArray[Any] = found[var.name]
    return value


def _is_foreign(folder: Path, wanted: Sequence[Variable], filename: str | None) -> bool:
    """Whether PaddlePaddle wrote a folder: its files begin with a version, and have no ending."""
    if filename is not None:
        return head(folder / filename, 4) == bytes(4)
    return any(head(folder / var.name, 4) == bytes(4) for var in wanted)


def _tensors(folder: Path, wanted: Sequence[Variable], filename: str | None) -> dict[str, torch.Tensor]:
    if not wanted:
        return {}  # and then PaddlePaddle writes no file
    if filename is not None:
        path = folder / filename
        found = read_all(path, [var.name for var in wanted])
        return {var.name: _fitting(var, found[var.name], str(path)) for var in wanted}
    return {var.name: _fitting(var, read_one(path := _inside(folder, var.name)), str(path)) for var in wanted}


def _inside(folder: Path, name: str) -> Path:
    """Where a variable stands; a name that a file gives leads nowhere else."""
    path = folder / name
    if Path(name).is_absolute() or ".." in Path(name).parts:
        raise CheckpointError(f"variable {name!r} would be read from outside {folder}; load a model that you trust")
    return path


def _fitting(var: Variable, value: npt.NDArray[Any], place: str) -> torch.Tensor:
    fits = len(value.shape) == len(var.shape) and all(
        size in (-1, found) for size, found in zip(var.shape, value.shape, strict=True)
    )
    stored = "float32" if var.dtype == "bfloat16" else var.dtype
    if not fits or value.dtype != stored:
        raise CheckpointError(
            f"{place} holds {value.dtype}{list(value.shape)}, but variable {var.name!r} is {var.dtype}"
            f"{list(var.shape)}; load it into the program that it was saved of"
        )
    return torch.from_numpy(np.array(value)).to(torch_dtype(var.dtype))
