"""`save_dygraph` and `load_dygraph`: the state of a layer, and that of an optimizer beside it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from fleet.errors import UsageError
from fleet_paddle.fluid.optimizer import SCHEDULE, OptimizerState
from fleet_paddle.imperative import load, save

PARAMETERS, STATE = ".pdparams", ".pdopt"


def save_dygraph(state_dict: dict[str, Any], model_path: str | os.PathLike[str]) -> None:
    """Save what `state_dict()` gives: a layer's as `model_path.pdparams`, an optimizer's as `model_path.pdopt`."""
    prefix = Path(model_path)
    if not prefix.name:
        raise UsageError(f"save_dygraph: model_path must be DIRECTORY/PREFIX, got {os.fspath(model_path)!r}")
    is_optimizer = isinstance(state_dict, OptimizerState) or "param_groups" in state_dict or SCHEDULE in state_dict
    prefix.parent.mkdir(parents=True, exist_ok=True)
    save(dict(state_dict), os.fspath(model_path) + (STATE if is_optimizer else PARAMETERS))


def load_dygraph(model_path: str | os.PathLike[str]) -> tuple[dict[Any, Any] | None, dict[Any, Any] | None]:
    """What `save_dygraph` saved: the layer's and the optimizer's, None for what is not there."""
    prefix = os.fspath(model_path).removesuffix(PARAMETERS).removesuffix(STATE)
    paths = [Path(prefix + ending) for ending in (PARAMETERS, STATE)]
    if not any(path.exists() for path in paths):
        raise UsageError(f"load_dygraph: there is neither {paths[0]} nor {paths[1]}; give what save_dygraph was given")
    parameters, state = (load(path) if path.exists() else None for path in paths)
    return parameters, state
