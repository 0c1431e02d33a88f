"""Methods that torch and Paddle mean differently: scripts get Paddle's, whatever their modules are called."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.optim.adam as code_of_torch

import fleet.collective.parts.average as code_of_fleet
import fleet_paddle.imperative as paddle

SCRIPT = """
def parts(x):
    return [list(part.size()) for part in x.split(2, 1)]

def more(x):
    x += 1
    return x
"""


def defined(name: str, file: str) -> dict[str, Any]:
    """The functions of SCRIPT, in a module of this name in this file."""
    module: dict[str, Any] = {"__name__": name}
    exec(compile(SCRIPT, file, "exec"), module)
    return module


@pytest.mark.parametrize("name", ["torch_utils", "torch", "fleet.helpers", "fleet_paddle.helpers", "train"])
def test_the_name_of_a_module_changes_nothing(name: str) -> None:
    script = defined(name, f"/somewhere/{name}.py")
    x: Any = paddle.ones([3, 6])
    assert script["parts"](x) == [[3, 3]] * 2
    assert script["more"](x) is not x
    assert x.max() == 1


@pytest.mark.parametrize("module", [code_of_torch, code_of_fleet])
def test_code_in_the_folders_of_torch_and_fleet_means_torch(module: Any) -> None:
    code = defined("anything", module.__file__)
    x: Any = paddle.ones([3, 6])
    assert code["parts"](x) == [[3, 2]] * 3
    assert code["more"](x) is x


def test_functions_of_torch_that_ask_tensors_get_what_they_mean() -> None:
    by_size: Any = torch.split
    assert [tuple(part.shape) for part in by_size(paddle.ones([3, 6]), 2, 1)] == [(3, 2)] * 3
    chosen = torch.nn.functional.gumbel_softmax(paddle.to_tensor([[0.0, 900.0, 0.0]]), hard=True)
    assert chosen.tolist() == [[0, 1, 0]]
