"""Measures over all workers of a job: each takes this worker's numbers and gives everybody the same result.

What is counted may be an array, a number, or a variable of a program (or its name), whose value is in the scope. Every
worker must call it.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from fleet.errors import NotReadyError
from fleet.metrics import auc as auc_of_counts
from fleet_programs.executor.scope import Scope, global_scope
from fleet_programs.program.variable import Variable

if TYPE_CHECKING:
    from fleet.collective.world.util import Util


def sum(input: Any, scope: Scope | None = None, util: Util | None = None) -> Any:
    """The sum over workers, element by element."""
    return _reduced(input, scope, util, "sum")


def max(input: Any, scope: Scope | None = None, util: Util | None = None) -> Any:
    """The largest over workers, element by element."""
    return _reduced(input, scope, util, "max")


def min(input: Any, scope: Scope | None = None, util: Util | None = None) -> Any:
    """The smallest over workers, element by element."""
    return _reduced(input, scope, util, "min")


def mae(abserr: Any, total_ins_num: Any, scope: Scope | None = None, util: Util | None = None) -> float:
    """The mean absolute error: sums of absolute errors and counts of samples of all workers."""
    return _ratio(abserr, total_ins_num, scope, util)


def mse(sqrerr: Any, total_ins_num: Any, scope: Scope | None = None, util: Util | None = None) -> float:
    """The mean squared error."""
    return _ratio(sqrerr, total_ins_num, scope, util)


def rmse(sqrerr: Any, total_ins_num: Any, scope: Scope | None = None, util: Util | None = None) -> float:
    """The root of the mean squared error."""
    return math.sqrt(_ratio(sqrerr, total_ins_num, scope, util))


def acc(correct: Any, total: Any, scope: Scope | None = None, util: Util | None = None) -> float:
    """The part of samples that were right."""
    return _ratio(correct, total, scope, util)


def auc(stat_pos: Any, stat_neg: Any, scope: Scope | None = None, util: Util | None = None) -> float:
    """The AUC of the counts that the layer `auc` keeps, by rising score; 0.5 where a class is missing."""
    counts = [
        torch.from_numpy(np.asarray(_reduced(one, scope, util, "sum"))).reshape(-1) for one in (stat_neg, stat_pos)
    ]
    return auc_of_counts(*counts) if all(one.any() for one in counts) else 0.5


__all__ = ["acc", "auc", "mae", "max", "min", "mse", "rmse", "sum"]


def _ratio(part: Any, whole: Any, scope: Scope | None, util: Util | None) -> float:
    one, other = (float(np.sum(_reduced(value, scope, util, "sum"))) for value in (part, whole))
    return one / other if other else math.nan


def _reduced(value: Any, scope: Scope | None, util: Util | None, mode: Any) -> Any:
    if util is None:
        from fleet.api import fleet

        util = fleet.util
    if isinstance(value, Variable | str):
        name = value if isinstance(value, str) else value.name
        found = (global_scope() if scope is None else scope).tensors.get(name)
        if found is None:
            raise NotReadyError(f"{name!r} has no value; run the program first, and make the variable persistable")
        value = found.detach().cpu().numpy()
    return util.all_reduce(np.asarray(value), mode)
