"""Save and load: variables as plain numpy or safetensors files, inference models, whole programs; readers of data."""

from __future__ import annotations

from fleet.static.io.inference import load_inference_model, save_inference_model
from fleet.static.io.state import load_program_state, set_program_state
from fleet.static.io.variables import (
    is_parameter,
    is_persistable,
    load_params,
    load_persistables,
    load_vars,
    save_params,
    save_persistables,
    save_vars,
)
from fleet.static.io.whole import load, save
from fleet.static.reader import DataLoader, PyReader

__all__ = [
    "DataLoader",
    "PyReader",
    "is_parameter",
    "is_persistable",
    "load",
    "load_inference_model",
    "load_params",
    "load_persistables",
    "load_program_state",
    "load_vars",
    "save",
    "save_inference_model",
    "save_params",
    "save_persistables",
    "save_vars",
    "set_program_state",
]
