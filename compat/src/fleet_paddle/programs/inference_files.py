"""Inference models as two files with one prefix: `prefix.pdmodel` and `prefix.pdiparams`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fleet.errors import UsageError, UsageTypeError
from fleet_paddle.foreign.loading import load_inference_model as load_model
from fleet_programs.executor.executor import Executor
from fleet_programs.io import inference
from fleet_programs.program.program import Program
from fleet_programs.program.variable import Variable

MODEL, PARAMS = ".pdmodel", ".pdiparams"


def save_inference_model(
    path_prefix: str | os.PathLike[str],
    feed_vars: Sequence[Variable] | Variable,
    fetch_vars: Sequence[Variable] | Variable,
    executor: Executor,
    program: Program | None = None,
) -> list[str]:
    """Save what computes `fetch_vars` from `feed_vars`; returns the names of the fetches."""
    folder, name = _split(path_prefix)
    feeds = [feed_vars] if isinstance(feed_vars, Variable) else list(feed_vars)
    for feed in feeds:
        if not isinstance(feed, Variable):
            raise UsageTypeError(f"feed_vars must hold variables, got {type(feed).__name__}")
    names = [feed.name for feed in feeds]
    return inference.save_inference_model(folder, names, fetch_vars, executor, program, name + MODEL, name + PARAMS)


def load_inference_model(path_prefix: str | os.PathLike[str], executor: Executor) -> list[Any]:
    """What `save_inference_model` saved: [program, names of feeds, target variables]; parameters go to the scope.

    What PaddlePaddle saved is read too, if all its operators are known here.
    """
    folder, name = _split(path_prefix)
    return load_model(folder, executor, name + MODEL, name + PARAMS)


def _split(path_prefix: str | os.PathLike[str]) -> tuple[Path, str]:
    path = Path(path_prefix)
    if not path.name or os.fspath(path_prefix).endswith("/"):
        raise UsageError(f"path_prefix must end in a name, got {os.fspath(path_prefix)!r}; for example 'model/ctr'")
    return path.parent, path.name
