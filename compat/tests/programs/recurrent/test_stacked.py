"""`basic_gru` and `basic_lstm` of fluid.contrib against torch's layers, with the same weights."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import pytest
import torch

from fleet.errors import UsageError

fluid: Any = importlib.import_module("paddle.fluid")
B, T, D, H = 3, 5, 4, 6


def _weights(scope: Any, stem: str) -> tuple[torch.Tensor, torch.Tensor]:
    return tuple(torch.tensor(np.array(scope.find_var(f"{stem}.{one}_0").get_tensor())) for one in ("w", "b"))  # type: ignore[return-value]


def _built(make: Any) -> tuple[Any, list[Any], np.ndarray[Any, Any], Any]:
    main, startup, scope = fluid.Program(), fluid.Program(), fluid.core.Scope()
    x = np.random.default_rng(3).normal(size=(B, T, D)).astype("float32")
    with fluid.program_guard(main, startup), fluid.unique_name.guard(), fluid.scope_guard(scope):
        outs = make(fluid.data("x", [None, T, D]))
        exe = fluid.Executor(fluid.CPUPlace())
        exe.run(startup)
        found = exe.run(main, {"x": x}, list(outs))
    return main, found, x, scope


def test_two_layers_in_both_directions_are_those_of_torch() -> None:
    main, (out, hidden, cell), x, scope = _built(
        lambda x: fluid.contrib.layers.basic_lstm(x, None, None, H, num_layers=2, bidirectional=True, forget_bias=0.5)
    )
    stems = [f"basic_lstm_layer{number}{way}_0" for number in (0, 1) for way in ("", "_reverse")]
    assert len(main.all_parameters()) == 8
    other = torch.nn.LSTM(D, H, 2, batch_first=True, bidirectional=True)
    with torch.no_grad():
        for place, stem in enumerate(stems):
            suffix = f"_l{place // 2}{'_reverse' if place % 2 else ''}"
            weight, bias = _weights(scope, stem)
            width = len(weight) - H
            given, own, kept, shown = weight.T.split(H)  # torch has input, forget, candidate, output
            of_bias = list(bias.split(H))
            of_bias[2] = of_bias[2] + 0.5
            whole = torch.cat([given, kept, own, shown])
            getattr(other, f"weight_ih{suffix}").copy_(whole[:, :width])
            getattr(other, f"weight_hh{suffix}").copy_(whole[:, width:])
            getattr(other, f"bias_ih{suffix}").copy_(torch.cat([of_bias[at] for at in (0, 2, 1, 3)]))
            getattr(other, f"bias_hh{suffix}").zero_()
        wanted, (last, cells) = other(torch.tensor(x))
    np.testing.assert_allclose(out, wanted, atol=1e-5)
    np.testing.assert_allclose(hidden, last, atol=1e-5)
    np.testing.assert_allclose(cell, cells, atol=1e-5)


def test_a_gru_begins_with_what_it_is_given_and_stops_where_rows_end() -> None:
    first = np.random.default_rng(4).normal(size=(1, B, H)).astype("float32")
    lengths = np.array([5, 2, 3])

    def make(x: Any) -> Any:
        begin, sizes = fluid.layers.assign(first), fluid.layers.assign(lengths)
        return fluid.contrib.layers.basic_gru(x, begin, H, sequence_length=sizes)

    _, (_, hidden), x, scope = _built(make)
    gates, gates_bias = _weights(scope, "basic_gru_layer0_0_gate")
    own, own_bias = _weights(scope, "basic_gru_layer0_0_candidate")
    for row in range(B):
        state = torch.tensor(first[0, row])
        for step in range(lengths[row]):
            word = torch.tensor(x[row, step])
            reset, update = torch.sigmoid(torch.cat([word, state]) @ gates + gates_bias).split(H)
            candidate = torch.tanh(torch.cat([word, reset * state]) @ own + own_bias)
            state = update * state + (1 - update) * candidate
        np.testing.assert_allclose(hidden[0, row], state, atol=1e-5)


def test_a_layer_learns_and_says_what_it_misses() -> None:
    with fluid.program_guard(fluid.Program(), fluid.Program()), fluid.scope_guard(fluid.core.Scope()):
        x = fluid.data("x", [None, T, D])
        out, _, _ = fluid.contrib.layers.basic_lstm(x, None, None, H, dropout_prob=0.1)
        loss = fluid.layers.mean(fluid.layers.square(out - 0.3))
        fluid.optimizer.Adam(0.05).minimize(loss)
        exe = fluid.Executor(fluid.CPUPlace())
        exe.run(fluid.default_startup_program())
        values = np.random.default_rng(5).normal(size=(B, T, D)).astype("float32")
        costs = [float(exe.run(feed={"x": values}, fetch_list=[loss])[0]) for _ in range(30)]
        assert costs[-1] < 0.6 * costs[0]
        with pytest.raises(UsageError, match="give both init_hidden and init_cell, or neither"):
            fluid.contrib.layers.basic_lstm(x, fluid.layers.zeros([1, B, H], "float32"), None, H)


def test_a_softmax_of_each_row_is_an_activation() -> None:
    with fluid.program_guard(fluid.Program(), fluid.Program()), fluid.scope_guard(fluid.core.Scope()):
        x = fluid.data("x", [None, D], "float32", lod_level=1)
        weights = fluid.layers.fc(x, 1, act="sequence_softmax", bias_attr=False)
        exe = fluid.Executor(fluid.CPUPlace())
        exe.run(fluid.default_startup_program())
        values = fluid.create_lod_tensor(np.random.default_rng(6).random((5, D)).astype("float32"), [[2, 3]])
        (found,) = exe.run(feed={"x": values}, fetch_list=[weights])
    np.testing.assert_allclose([found[:2].sum(), found[2:].sum()], 1.0, rtol=1e-6)
