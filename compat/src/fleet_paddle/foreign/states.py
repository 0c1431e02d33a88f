"""The state of an optimizer as PaddlePaddle saves it (`.pdopt`), made that of torch's.

There every accumulator stands by itself, under its parameter's name and a word: `linear_0.w_0_moment1_0`. Names depend
on what a process made before, so parameters are found by their order, which is that of the optimizer, and compared by
shape. `beta1_pow_acc` is beta1 to the power of one more than the steps that were made, and so is that of beta2; float32
holds no such power of 0.9 after a thousand steps, and then the other one tells.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from fleet.errors import CheckpointError, NotSupportedError

SCHEDULE = "LR_Scheduler"
MASTER = "master_weights"

_WORDS: dict[str, dict[str, str]] = {
    "SGD": {"velocity": "momentum_buffer"},
    "Adam": {"moment1": "exp_avg", "moment2": "exp_avg_sq"},
    "AdamW": {"moment1": "exp_avg", "moment2": "exp_avg_sq"},
    "Lamb": {"moment1": "exp_avg", "moment2": "exp_avg_sq"},
    "Adamax": {"moment": "exp_avg", "inf_norm": "exp_inf"},
    "Adagrad": {"moment": "sum"},
    "Adadelta": {"_avg_squared_grad": "square_avg", "_avg_squared_update": "acc_delta"},
}
"""torch's class -> what PaddlePaddle calls an accumulator -> what torch does."""

_SMALLEST = float(np.finfo(np.float32).tiny)
_CLOSE = float(np.finfo(np.float32).eps)
"""float32 has no 0.99, but a number that is a little larger."""

_COUNTED = ("Adam", "AdamW", "Lamb", "Adamax")
_FORM = re.compile(
    r"(.+)_(moment1|moment2|moment|velocity|inf_norm|beta1_pow_acc|beta2_pow_acc|_avg_squared_(?:grad|update))_\d+"
)


def is_foreign(state: Mapping[str, Any]) -> bool:
    """Whether a state is of PaddlePaddle: torch's has groups, and ours is torch's."""
    return "param_groups" not in state


def torch_state(kind: str, groups: Sequence[dict[str, Any]], given: Mapping[str, Any]) -> dict[int, dict[str, Any]]:
    """What torch's state holds for each parameter, by number; CheckpointError where the two do not fit."""
    if kind not in _WORDS:
        raise NotSupportedError(
            f"set_state_dict: a state of PaddlePaddle's {kind} is not read, for its formula is another; load the "
            "parameters alone"
        )
    if given.get(MASTER):
        raise NotSupportedError("set_state_dict: master_weights are not read; save the state of a float32 model")
    parameters = [(one, group) for group in groups for one in group["params"]]
    found = _by_parameter(given)
    if not found:
        return {}
    if len(found) != len(parameters):
        raise CheckpointError(
            f"set_state_dict: the state is of {len(found)} parameters, and this optimizer trains {len(parameters)}; "
            "load it into the optimizer of the same model"
        )
    return {
        number: _state(kind, group, parameter, values, name)
        for number, ((name, values), (parameter, group)) in enumerate(zip(found.items(), parameters, strict=True))
    }


def _by_parameter(given: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for key, value in given.items():
        if (named := _FORM.fullmatch(key)) is not None:
            found.setdefault(named[1], {})[named[2]] = value
    return found


def _state(
    kind: str, group: dict[str, Any], parameter: torch.Tensor, values: Mapping[str, Any], name: str
) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for word, own in _WORDS[kind].items():
        if word not in values:
            raise CheckpointError(
                f"set_state_dict: {name} has no {word}, which {kind} keeps; it is of another optimizer"
            )
        tensor = torch.as_tensor(np.asarray(values[word])).clone()
        if tensor.shape != parameter.shape:
            raise CheckpointError(
                f"set_state_dict: {name}_{word} has shape {list(tensor.shape)}, and the parameter "
                f"{list(parameter.shape)}; load it into the optimizer of the same model"
            )
        made[own] = tensor
    if kind in ("Adagrad", "Adadelta"):
        made["step"] = torch.tensor(0.0)  # counts for a decay of the rate, which there is none of, or for nothing
    if kind in _COUNTED:
        made["step"] = torch.tensor(_steps(values, group["betas"], name))
    return made


def _steps(values: Mapping[str, Any], betas: Sequence[float], name: str) -> float:
    """How many steps were made, by the first power that float32 still holds with all its digits."""
    least = 0.0
    for number, beta in enumerate(betas, 1):
        word = f"beta{number}_pow_acc"
        if word not in values:
            continue
        power = float(np.asarray(values[word]).ravel()[0])
        if not (0 <= power <= beta * (1 + _CLOSE) and 0 < beta < 1):
            raise CheckpointError(
                f"set_state_dict: {name}_{word} is {power:g}, and no power of beta{number} = {beta:g}; give the "
                f"optimizer the beta{number} that it was saved with"
            )
        if power >= _SMALLEST:
            return float(max(round(math.log(power) / math.log(beta)) - 1, 0))
        least = max(least, math.ceil(math.log(_SMALLEST) / math.log(beta)))
    if not least:
        raise CheckpointError(
            f"set_state_dict: {name} has no beta1_pow_acc, which tells the steps; it is of another optimizer"
        )
    return float(least)  # at which the moments are corrected by nothing any more
