"""Classes that are made from a line of text have real signatures, and optimizers for either have those of tensors."""

from __future__ import annotations

from inspect import signature
from typing import Any

import pytest

from fleet_paddle import dygraph, optimizer
from fleet_paddle.imperative import nn
from fleet_paddle.imperative import optimizer as of_tensors
from fleet_paddle.taking import Taking


class Point(Taking):
    takes = "x, y->height=0, name"

    def take(self, given: dict[str, Any]) -> None:
        self.given = given


def test_arguments_come_under_the_names_behind_their_arrows() -> None:
    assert Point(1, y=2).given == {"x": 1, "height": 2, "name": None}


def test_a_signature_is_that_of_the_line() -> None:
    assert str(signature(Point)) == "(x, y=0, name=None)"
    with pytest.raises(TypeError, match="height"):
        Point(1, height=2)
    with pytest.raises(TypeError, match="missing"):
        Point()


@pytest.mark.parametrize("name", optimizer.__all__)
def test_an_optimizer_for_either_takes_what_that_of_tensors_takes(name: str) -> None:
    assert signature(getattr(optimizer, name)) == signature(getattr(of_tensors, name))


@pytest.mark.parametrize(
    ("kind", "wanted"),
    [
        (nn.Linear, "(in_features, out_features, weight_attr=None, bias_attr=None, name=None)"),
        (
            nn.Conv1DTranspose,
            "(in_channels, out_channels, kernel_size, stride=1, padding=0, output_padding=0, groups=1, dilation=1, "
            "weight_attr=None, bias_attr=None, data_format=None)",
        ),
        (
            nn.SimpleRNNCell,
            "(input_size, hidden_size, activation='tanh', weight_ih_attr=None, weight_hh_attr=None, "
            "bias_ih_attr=None, bias_hh_attr=None, name=None)",
        ),
        (dygraph.Linear, "(input_dim, output_dim, param_attr=None, bias_attr=None, act=None, dtype='float32')"),
        (
            dygraph.Embedding,
            "(size, is_sparse=False, is_distributed=False, padding_idx=None, param_attr=None, dtype='float32')",
        ),
    ],
)
def test_layers_have_real_signatures(kind: type, wanted: str) -> None:
    assert str(signature(kind)) == wanted


def test_a_layer_tells_what_is_missing_and_what_it_does_not_know() -> None:
    with pytest.raises(TypeError, match=r"Linear.__init__\(\) missing 1 required positional argument: 'out_features'"):
        nn.Linear(3)
    with pytest.raises(TypeError, match="unexpected keyword argument 'proj_size'"):
        nn.LSTM(3, 4, proj_size=2)


def test_a_script_may_build_on_a_layer() -> None:
    class Own(nn.Linear):
        def __init__(self, width: int) -> None:
            super().__init__(width, 2 * width)
            self.width = width

    assert Own(3).weight.shape == [3, 6]
    assert Own(3).width == 3


def test_batch_norm_of_1_8_takes_what_that_of_2_takes() -> None:
    assert signature(dygraph.BatchNorm) == signature(nn.BatchNorm)
