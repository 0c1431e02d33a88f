"""Recurrent layers and cells after `enable_static()`: a program computes and differentiates what tensors do."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from torch.utils._pytree import tree_flatten

import fleet_programs as static
from fleet.errors import UsageError
from fleet_paddle import imperative, mode
from fleet_paddle.imperative import nn
from fleet_programs import Program
from program_support.programs import Built, building

RANDOM = np.random.default_rng(3)
X = RANDOM.standard_normal((2, 5, 3)).astype(np.float32)
LENGTHS = np.array([3, 5])
WIDE = RANDOM.standard_normal((4, 2, 4)).astype(np.float32)
"""First states of two layers in two directions."""
ROWS = RANDOM.standard_normal((2, 4)).astype(np.float32)

Run = Callable[..., Any]


@pytest.fixture(autouse=True)
def nobody_spoke() -> Iterator[None]:
    with mode.kept(), static.scope_guard(static.Scope()):
        yield


class Doubling(nn.RNNCellBase):
    """A cell of a user: half of the state, and a weighted input."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(3, 4)

    @property
    def state_shape(self) -> Any:
        return (4,)

    def forward(self, inputs: Any, states: Any) -> Any:
        made = imperative.tanh(self.inner(inputs) + states * 0.5)
        return made * 2.0, made


def _turned(x: Any) -> Any:
    return imperative.transpose(x, [1, 0, 2])


CASES: dict[str, tuple[Callable[[], Any], Run]] = {
    "LSTM": (lambda: nn.LSTM(3, 4), lambda net, g: net(g.x)),
    "GRU": (lambda: nn.GRU(3, 4), lambda net, g: net(g.x)),
    "SimpleRNN": (lambda: nn.SimpleRNN(3, 4), lambda net, g: net(g.x)),
    "relu": (lambda: nn.SimpleRNN(3, 4, activation="relu"), lambda net, g: net(g.x)),
    "no bias": (
        lambda: nn.GRU(3, 4, bias_ih_attr=False, bias_hh_attr=False),
        lambda net, g: net(g.x),
    ),
    "two layers, both ways, first states, lengths": (
        lambda: nn.LSTM(3, 4, 2, "bidirect"),
        lambda net, g: net(g.x, (g.wide, g.wide * 0.5), g.n),
    ),
    "GRU, both ways, first state, lengths": (
        lambda: nn.GRU(3, 4, 2, direction="bidirectional"),
        lambda net, g: net(g.x, g.wide, g.n),
    ),
    "time first": (
        lambda: nn.SimpleRNN(3, 4, 2, time_major=True),
        lambda net, g: net(_turned(g.x), sequence_length=g.n),
    ),
    "dropout of nothing": (
        lambda: nn.LSTM(3, 4, 2, "bidirect", dropout=1e-30),
        lambda net, g: net(g.x, (g.wide, g.wide), g.n),
    ),
    "evaluated": (lambda: nn.GRU(3, 4, 3, dropout=0.5).eval(), lambda net, g: net(g.x)),
    "LSTMCell": (lambda: nn.LSTMCell(3, 4), lambda net, g: net(g.x[:, 0], (g.rows, g.rows))),
    "GRUCell": (lambda: nn.GRUCell(3, 4), lambda net, g: net(g.x[:, 0], g.rows)),
    "SimpleRNNCell": (lambda: nn.SimpleRNNCell(3, 4), lambda net, g: net(g.x[:, 0])),
    "RNN": (lambda: nn.RNN(nn.LSTMCell(3, 4)), lambda net, g: net(g.x, (g.rows, g.rows))),
    "RNN from the end": (
        lambda: nn.RNN(nn.GRUCell(3, 4), is_reverse=True, time_major=True),
        lambda net, g: net(_turned(g.x)),
    ),
    "RNN with lengths": (
        lambda: nn.RNN(nn.LSTMCell(3, 4), is_reverse=True),
        lambda net, g: net(g.x, sequence_length=g.n),
    ),
    "RNN of a user's cell": (lambda: nn.RNN(Doubling()), lambda net, g: net(g.x, g.rows, g.n)),
    "BiRNN": (
        lambda: nn.BiRNN(nn.SimpleRNNCell(3, 4), nn.SimpleRNNCell(3, 4)),
        lambda net, g: net(g.x, (g.rows, g.rows)),
    ),
    "BiRNN with lengths": (
        lambda: nn.BiRNN(nn.GRUCell(3, 4), nn.GRUCell(3, 4)),
        lambda net, g: net(g.x, None, g.n),
    ),
}


def loss_of(made: Any) -> Any:
    """A number that every output matters for."""
    return sum(imperative.mean(one * one) * (place + 1.0) for place, one in enumerate(tree_flatten(made)[0]))


def built_of(kind: str) -> tuple[Built, Any, Any, dict[str, Any]]:
    make, run = CASES[kind]
    mode.enable_static()
    with building() as built:
        layer = make()
        x = static.data("x", [None, 5, 3])
        x.stop_gradient = False
        n, wide, rows = static.data("n", [None], "int64"), static.data("w", [4, None, 4]), static.data("r", [None, 4])
        made = run(layer, SimpleNamespace(x=x, n=n, wide=wide, rows=rows))
        wanted: list[Any] = [*layer.state_dict().values(), x]
        slopes = static.gradients(loss_of(made), wanted)
    return built, layer, made, {one.name: slope for one, slope in zip(wanted, slopes, strict=True)}


@pytest.mark.parametrize("kind", CASES)
def test_a_layer_of_programs_is_that_of_tensors(kind: str) -> None:
    make, run = CASES[kind]
    of_tensors = make()
    built, layer, made, slopes = built_of(kind)
    mode.disable_static()
    assert list(layer.state_dict()) == list(of_tensors.state_dict())
    built.start()
    with static.scope_guard(built.scope):
        layer.set_state_dict(of_tensors.state_dict())
    outs = tree_flatten(made)[0]
    places = list(of_tensors.state_dict())
    names = [layer.state_dict()[place].name for place in places]
    feed = {"x": X, "n": LENGTHS, "w": WIDE, "r": ROWS}
    fetched = [name for name in feed if built.main.global_block().has_var(name)]
    found = built.run({name: feed[name] for name in fetched}, *outs, *(slopes[name] for name in [*names, "x"]))

    x = imperative.to_tensor(X, stop_gradient=False)
    others = {"n": LENGTHS, "wide": WIDE, "rows": ROWS}
    given = {name: imperative.to_tensor(one) for name, one in others.items()}
    wanted = run(of_tensors, SimpleNamespace(x=x, **given))
    loss_of(wanted).backward()
    expected = [one.detach() for one in tree_flatten(wanted)[0]]
    expected += [one.grad for one in of_tensors.state_dict(keep_vars=True).values()] + [x.grad]
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other.numpy(), rtol=1e-4, atol=1e-6)
    for var, one in zip(outs, expected, strict=False):
        assert all(size in (-1, real) for size, real in zip(var.shape, one.shape, strict=True)), var


def test_one_operator_has_all_layers_and_its_text_reads_back() -> None:
    built, _, _, _ = built_of("two layers, both ways, first states, lengths")
    types = [op.type for op in built.main.global_block().ops]
    assert types.count("rnn") == types.count("rnn_grad") == 1
    text = str(built.main)
    assert str(Program.parse_from_string(text)) == text
    assert "rnn_grad(" in text


def test_values_are_dropped_between_layers_and_not_in_evaluation() -> None:
    mode.enable_static()
    with building() as built:
        built.main.random_seed = 1
        out, _ = nn.LSTM(3, 4, 3, dropout=0.5)(static.data("x", [None, 5, 3]))
    evaluated = built.main.clone(for_test=True)
    assert [op.type for op in built.main.global_block().ops].count("dropout") == 2
    built.start()
    first, second = (built.run({"x": X}, out)[0] for _ in range(2))
    assert np.abs(first - second).max() > 1e-4
    exe = static.Executor(static.CPUPlace())
    one, other = (exe.run(evaluated, {"x": X}, [out], scope=built.scope)[0] for _ in range(2))
    np.testing.assert_array_equal(one, other)


def test_mistakes_are_told_when_the_program_is_built() -> None:
    mode.enable_static()
    with building() as built:
        layer, x = nn.LSTM(3, 4), static.data("x", [None, 5, 3])
        with pytest.raises(UsageError, match="rnn: WeightList .* must have shape \\[16, 6\\], got \\[16, 3\\]"):
            layer(static.data("wide", [None, 5, 6]))
        with pytest.raises(UsageError, match="rnn: LSTM takes 2 first states, got 1"):
            layer(x, static.data("h", [1, None, 4]))
        out, _ = layer(x, sequence_length=static.data("n", [None], "int64"))
    built.start()
    with pytest.raises(UsageError, match="sequence_length must be at least 1, got \\[0, 5\\]"):
        built.run({"x": X, "n": np.array([0, 5])}, out)


def test_a_layer_of_tensors_refuses_variables_and_the_other_way_round() -> None:
    of_tensors, tensor = nn.GRU(3, 4), imperative.to_tensor(X)
    mode.enable_static()
    with building():
        with pytest.raises(UsageError, match="GRU was made for tensors and is called with 'x', a variable"):
            of_tensors(static.data("x", [None, 5, 3]))
        with pytest.raises(UsageError, match="GRU was made for programs, after enable_static"):
            nn.GRU(3, 4)(tensor)


def test_an_inference_model_has_them_and_json_reads_back(tmp_path: Path) -> None:
    mode.enable_static()
    with building() as built:
        x, n = static.data("x", [None, 5, 3]), static.data("n", [1], "int64")
        made, _ = nn.LSTM(3, 4, 2, dropout=0.3)(x)
        out = imperative.reshape(made[:, ::-1][..., None], [0, n, -1])
        static.append_backward(imperative.mean(out))
    text = built.main.to_json()
    assert Program.from_json(text).to_json() == text
    built.start()
    exe, feed = static.Executor(static.CPUPlace()), {"x": X, "n": np.array([10])}
    (wanted,) = exe.run(built.main.clone(for_test=True), feed, [out], scope=built.scope)
    with static.scope_guard(built.scope):
        static.io.save_inference_model(str(tmp_path), ["x", "n"], [out], exe, main_program=built.main)
    with static.scope_guard(static.Scope()):
        program, _, fetches = static.io.load_inference_model(str(tmp_path), exe)
        (found,) = exe.run(program, feed, fetches)
    assert found.shape == (2, 10, 2)
    np.testing.assert_array_equal(found, wanted)
