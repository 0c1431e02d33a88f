"""Save and load: variables as plain numpy or safetensors files, inference models, whole programs; readers of data."""

from __future__ import annotations

from fleet_programs.feeding.reader import DataLoader, PyReader
from fleet_programs.io.inference import load_inference_model, save_inference_model
from fleet_programs.io.state import load_program_state, set_program_state
from fleet_programs.io.variables import (
    is_parameter,
    is_persistable,
    load_params,
    load_persistables,
    load_vars,
    save_params,
    save_persistables,
    save_vars,
)
from fleet_programs.io.whole import load, save

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
