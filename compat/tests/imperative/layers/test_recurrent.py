"""Recurrent layers and cells equal torch's with the same weights, and end where sequences end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import fleet_paddle.imperative as paddle
from fleet.errors import FleetError
from fleet_paddle.imperative import nn

LENGTHS = [3, 5]


def close(made: Any, wanted: Any) -> None:
    for one, other in zip(made, wanted, strict=True) if isinstance(made, tuple) else [(made, wanted)]:
        assert type(one) is paddle.Tensor
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-5, check_stride=False)


@pytest.mark.parametrize("direction", ["forward", "bidirect"])
@pytest.mark.parametrize("time_major", [False, True])
@pytest.mark.parametrize(
    ("ours", "torchs"), [(nn.LSTM, torch.nn.LSTM), (nn.GRU, torch.nn.GRU), (nn.SimpleRNN, torch.nn.RNN)]
)
def test_equal_to_torch(ours: Any, torchs: Any, time_major: bool, direction: str) -> None:
    layer = ours(3, 4, num_layers=2, direction=direction, time_major=time_major)
    plain = torchs(3, 4, 2, batch_first=not time_major, bidirectional=direction == "bidirect")
    plain.load_state_dict(layer.state_dict())
    x = paddle.randn([5, 2, 3] if time_major else [2, 5, 3])
    made, states = layer(x)
    wanted, wanted_states = plain(x.as_subclass(torch.Tensor))
    close(made, wanted)
    close(states, wanted_states)
    made.sum().backward()
    assert all(one.grad is not None for one in layer.parameters())
    close(layer(x, states)[0], plain(x.as_subclass(torch.Tensor), wanted_states)[0])


def test_a_sequence_ends_where_its_length_says() -> None:
    layer, x = nn.LSTM(3, 4, direction="bidirectional"), paddle.randn([2, 5, 3])
    made, (h, c) = layer(x, sequence_length=paddle.to_tensor(LENGTHS))
    short, (short_h, short_c) = layer(x[:1, :3])
    close(made[:1, :3], short)
    assert not made[0, 3:].any()
    close((h[:, :1], c[:, :1]), (short_h, short_c))


CELLS: list[tuple[Any, Any]] = [(nn.LSTMCell, nn.LSTM), (nn.GRUCell, nn.GRU), (nn.SimpleRNNCell, nn.SimpleRNN)]


@pytest.mark.parametrize(("cell_of", "layer_of"), CELLS)
def test_a_cell_taken_through_a_sequence_is_the_layer(cell_of: Any, layer_of: Any) -> None:
    cells, layer = [cell_of(3, 4), cell_of(3, 4)], layer_of(3, 4, direction="bidirect")
    for cell, end in zip(cells, ("", "_reverse"), strict=True):
        assert list(cell.state_dict()) == ["weight_ih", "weight_hh", "bias_ih", "bias_hh"]
        cell.set_state_dict({name: layer.state_dict()[f"{name}_l0{end}"] for name in cell.state_dict()})
    x = paddle.randn([2, 5, 3])
    wanted, wanted_states = layer(x, None, paddle.to_tensor(LENGTHS))
    made, (forward, backward) = nn.BiRNN(*cells)(x, sequence_length=paddle.to_tensor(LENGTHS))
    close(made[1], wanted[1])
    close(made[:1, :3], wanted[:1, :3])
    pairs = [(forward, backward)] if cell_of is not nn.LSTMCell else list(zip(forward, backward, strict=True))
    wanted_pairs = wanted_states if cell_of is nn.LSTMCell else [wanted_states]
    for (first, second), both in zip(pairs, wanted_pairs, strict=True):
        close((first, second), (both[0], both[1]))
    last = nn.RNN(cells[1], is_reverse=True, time_major=True)(x.transpose([1, 0, 2]))[0]
    close(last.transpose([1, 0, 2])[1], wanted[1, :, 4:])


def test_a_user_may_write_a_cell() -> None:
    class Sum(nn.RNNCellBase):
        @property
        def state_shape(self) -> Any:
            return (3,)

        def forward(self, inputs: Any, states: Any) -> Any:
            return states + inputs, states + inputs

    x = paddle.randn([2, 5, 3])
    made, last = nn.RNN(Sum())(x)
    np.testing.assert_allclose(made.numpy(), np.cumsum(x.numpy(), 1), rtol=1e-4, atol=1e-5)
    close(last, made[:, -1])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: nn.LSTM(3, 4, direction="backward"), "direction must be one of forward, bidirect, bidirectional"),
        (lambda: nn.GRU(3, 4, bias_ih_attr=False), "bias_ih_attr and bias_hh_attr must both be False, or neither"),
        (lambda: nn.GRU(3, 4, weight_ih_attr=False), "weight_ih_attr must not be False"),
        (lambda: nn.SimpleRNN(3, 4, activation="gelu"), "activation must be tanh or relu"),
        (lambda: nn.LSTM(3, 4)(paddle.ones([2, 5, 3]), None, [0, 5]), "sequence_length must be at least 1"),
        (lambda: nn.SimpleRNNCell(3, 4, "gelu"), "activation must be tanh or relu"),
        (lambda: nn.LSTMCell(3, 0), "hidden_size must be at least 1"),
    ],
)
def test_mistakes(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(FleetError, match=message):
        call()


def test_biases_may_be_left_out_and_dropout_is_between_layers() -> None:
    layer = nn.GRU(3, 4, num_layers=2, dropout=1.0, bias_ih_attr=False, bias_hh_attr=False)
    assert [name for name in layer.state_dict() if "bias" in name] == []
    assert not layer(paddle.ones([1, 2, 3]))[0].any()
    assert layer.eval()(paddle.ones([1, 2, 3]))[0].any()
