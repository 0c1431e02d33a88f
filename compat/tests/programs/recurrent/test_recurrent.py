"""Recurrent layers over ragged batches against a loop over rows and times, empty rows among them."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch

from fleet.errors import UsageError
from fleet_paddle.programs.layers.recurrent import recurrent
from fleet_paddle.programs.ops.recurrent.gates import ACTIVATIONS
from fleet_programs.layers.io import fed
from fleet_programs.program.program import Program
from program_support.programs import building
from program_support.static_ops import check, feed_variable, normal

OFFSETS = np.array([0, 2, 2, 5, 6])
WIDTH = 3
STATES = {"h": normal(4, WIDTH), "c": normal(4, WIDTH)}


def walk(x: torch.Tensor, is_reverse: bool, step: Any, *states: torch.Tensor) -> list[torch.Tensor]:
    """What `step(value, *states of a row)` gives along each row."""
    outs: list[list[torch.Tensor]] = []
    for row, (begin, end) in enumerate(pairwise(OFFSETS)):
        now, found = [state[row] for state in states], []
        for place in reversed(range(begin, end)) if is_reverse else range(begin, end):
            now = step(x[place], *now)
            found.append(now)
        outs += reversed(found) if is_reverse else found
    return [torch.stack(column) for column in zip(*outs, strict=True)]


def lstm_step(weight: torch.Tensor, bias: torch.Tensor, names: Any) -> Any:
    gate, squash, candidate = (ACTIVATIONS[name].apply for name in names)
    peeps = bias[0, 4 * WIDTH :].view(3, WIDTH) if bias.shape[1] > 4 * WIDTH else bias.new_zeros(3, WIDTH)

    def step(x: torch.Tensor, hidden: torch.Tensor, cell: torch.Tensor) -> list[torch.Tensor]:
        chosen, enter, forget, leave = (x + hidden @ weight + bias[0, : 4 * WIDTH]).view(4, WIDTH)
        made = gate(forget + peeps[1] * cell) * cell + gate(enter + peeps[0] * cell) * candidate(chosen)
        return [gate(leave + peeps[2] * made) * squash(made), made]

    return step


NAMES = ("sigmoid", "tanh", "tanh")


@pytest.mark.parametrize(
    ("peeps", "is_reverse", "with_states", "names"),
    [
        (True, False, False, NAMES),
        (True, True, True, NAMES),
        (False, False, True, ("relu", "identity", "sigmoid")),
        (False, True, False, NAMES),
    ],
)
@pytest.mark.parametrize("which", [0, 1])
def test_dynamic_lstm(peeps: bool, is_reverse: bool, with_states: bool, names: Any, which: int) -> None:
    gate, cell, candidate = names

    def build(x: Any, h: Any = None, c: Any = None) -> Any:
        return recurrent.dynamic_lstm(
            x, 4 * WIDTH, h, c, None, None, peeps, is_reverse, gate, cell, candidate, "float64"
        )[which]

    def reference(x: torch.Tensor, *more: torch.Tensor) -> torch.Tensor:
        *states, weight, bias = more
        begin = states or [x.new_zeros(4, WIDTH)] * 2
        return walk(x, is_reverse, lstm_step(weight, bias, names), *begin)[which]

    built = check(build, {"x": (normal(6, 4 * WIDTH), OFFSETS), **(STATES if with_states else {})}, reference)
    shapes = [parameter.shape for parameter in built.main.all_parameters()]
    assert shapes == [(WIDTH, 4 * WIDTH), (1, (7 if peeps else 4) * WIDTH)]
    assert Program.parse_from_string(str(built.main)).to_json() == built.main.to_json()


@pytest.mark.parametrize(("is_reverse", "is_origin", "with_state"), [(False, False, True), (True, True, False)])
def test_dynamic_gru(is_reverse: bool, is_origin: bool, with_state: bool) -> None:
    def reference(x: torch.Tensor, *more: torch.Tensor) -> torch.Tensor:
        *states, weight, bias = more
        step = gru_step(weight, bias, is_origin)
        return walk(x, is_reverse, lambda one, h: [step(one, h)], *(states or [x.new_zeros(4, WIDTH)]))[0]

    check(
        lambda x, h=None: recurrent.dynamic_gru(x, WIDTH, is_reverse=is_reverse, h_0=h, origin_mode=is_origin),
        {"x": (normal(6, 3 * WIDTH), OFFSETS), **({"h": STATES["h"]} if with_state else {})},
        reference,
    )


def gru_step(weight: torch.Tensor, bias: torch.Tensor, is_origin: bool) -> Any:
    flat = weight.reshape(-1)
    of_gates, of_candidate = flat[: 2 * WIDTH**2].view(WIDTH, -1), flat[2 * WIDTH**2 :].view(WIDTH, -1)

    def step(x: torch.Tensor, hidden: torch.Tensor) -> torch.Tensor:
        whole = x + bias[0]
        update, reset = torch.sigmoid(whole[..., : 2 * WIDTH] + hidden @ of_gates).chunk(2, -1)
        chosen = torch.tanh(whole[..., 2 * WIDTH :] + (reset * hidden) @ of_candidate)
        return update * hidden + (1 - update) * chosen if is_origin else (1 - update) * hidden + update * chosen

    return step


@pytest.mark.parametrize("is_origin", [False, True])
def test_gru_unit(is_origin: bool) -> None:
    check(
        lambda x, h: recurrent.gru_unit(x, h, 3 * WIDTH, origin_mode=is_origin)[0],
        {"x": normal(4, 3 * WIDTH), "h": STATES["h"]},
        lambda x, h, weight, bias: gru_step(weight, bias, is_origin)(x, h),
    )


def test_lstm_unit() -> None:
    def reference(x: Any, h: Any, c: Any, weight: Any, bias: Any) -> torch.Tensor:
        enter, forget, leave, chosen = (torch.cat([x, h], 1) @ weight + bias).chunk(4, 1)
        made = torch.sigmoid(forget + 1.5) * c + torch.sigmoid(enter) * torch.tanh(chosen)
        return torch.sigmoid(leave) * torch.tanh(made)

    check(lambda x, h, c: recurrent.lstm_unit(x, h, c, 1.5)[0], {"x": normal(4, 2), **STATES}, reference)


def test_rows_are_sorted_once_for_layers_over_one_variable() -> None:
    with building() as built:
        x = feed_variable("x", (normal(6, 12), OFFSETS))
        recurrent.dynamic_lstm(x, 12)
        recurrent.dynamic_gru(x, 4)
        recurrent.dynamic_lstm(x, 12, is_reverse=True)
    assert [op.type for op in built.main.global_block().ops].count("sequence_order") == 2


def test_a_batch_of_nothing_but_empty_rows() -> None:
    empty = (normal(0, 12), np.array([0, 0, 0]))
    check(lambda x: recurrent.dynamic_lstm(x, 12)[0], {"x": empty}, lambda x, w, _: x[:, :3] + w.sum() * 0)
    check(lambda x: recurrent.dynamic_gru(x, 4), {"x": empty}, lambda x, w, _: x[:, :4] + w.sum() * 0)


def test_bad_input() -> None:
    with building():
        x, flat = feed_variable("x", (normal(6, 12), OFFSETS)), fed("flat", [-1, 12])
        with pytest.raises(UsageError, match=r"input 'flat' must be ragged; declare it with data\(..., lod_level=1\)"):
            recurrent.dynamic_lstm(flat, 12)
        with pytest.raises(UsageError, match=r"input 'x' must be \[values, 4 \* width\], 16 columns as size says"):
            recurrent.dynamic_lstm(x, 16)
        with pytest.raises(UsageError, match="gate_activation must be one of sigmoid, .* got 'softmax'"):
            recurrent.dynamic_gru(x, 4, gate_activation="softmax")
        with pytest.raises(UsageError, match="bias_attr must not be False"):
            recurrent.dynamic_lstm(x, 12, bias_attr=False)
        with pytest.raises(UsageError, match=r"H0 'flat' must be float64 \[-1, 4\], got float32"):
            recurrent.dynamic_gru(x, 4, h_0=flat)
