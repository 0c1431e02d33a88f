"""Layers of 1.x over dense input and alignments, against torch and numbers that are easy to see."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional

import fleet_programs as static
from fleet.errors import NotSupportedError
from fleet_paddle import mode
from fleet_paddle.fluid import layers as fluid_layers
from program_support.programs import building
from program_support.static_ops import check, normal

L: Any = fluid_layers
X = np.random.default_rng(1).standard_normal((5, 2, 3))


@pytest.fixture(autouse=True)
def programs() -> Iterator[None]:
    with mode.kept(), static.scope_guard(static.Scope()):
        mode.enable_static()
        yield


@pytest.mark.parametrize("both", [False, True])
def test_lstm_has_its_weights_in_one_row(both: bool) -> None:
    ways = 2 if both else 1

    def reference(x: torch.Tensor, h: torch.Tensor, c: torch.Tensor, row: torch.Tensor) -> torch.Tensor:
        plain = torch.nn.LSTM(3, 4, 2, bidirectional=both, dtype=torch.float64)
        shapes = [one.shape for names in plain.all_weights for one in names[:2]]
        shapes += [one.shape for names in plain.all_weights for one in names[2:]]
        parts = [one.view(shape) for one, shape in zip(row.split([s.numel() for s in shapes]), shapes, strict=True)]
        half = len(parts) // 2
        flat = [one for at in range(0, half, 2) for one in (*parts[at : at + 2], *parts[half + at : half + at + 2])]
        out, last, cells = torch.lstm(x, (h, c), flat, True, 2, 0.0, True, both, False)
        return torch.cat([out.flatten(), last.flatten(), cells.flatten()])

    def build(x: Any, h: Any, c: Any) -> Any:
        made = L.lstm(x, h, c, 5, 4, 2, is_bidirec=both)
        return L.concat([L.reshape(one, [-1]) for one in made], 0)

    check(build, {"x": X, "h": normal(2 * ways, 2, 4), "c": normal(2 * ways, 2, 4)}, reference)


def test_lstm_refuses_a_seed_of_its_own() -> None:
    with building(), pytest.raises(NotSupportedError, match="seed must be left out, got 3; set random_seed"):
        state = static.data("h", [1, None, 4])
        L.lstm(static.data("x", [5, None, 3]), state, state, 5, 4, 1, seed=3)


def test_warpctc_takes_lengths_or_ragged_rows() -> None:
    scores, labels = normal(6, 2, 4), np.array([[1, 2], [3, 0]])
    steps, sizes = np.array([6, 4]), np.array([2, 1])

    def reference(x: torch.Tensor, *_: Any) -> torch.Tensor:
        given = torch.from_numpy(labels), torch.from_numpy(steps), torch.from_numpy(sizes)
        return functional.ctc_loss(torch.log_softmax(x, -1), *given, reduction="none").view(-1, 1)

    check(
        lambda x, y, n, m: L.warpctc(x, y, 0, False, n, m),
        {"x": scores, "y": labels, "n": steps, "m": sizes},
        reference,
    )
    rows = np.concatenate([scores[:6, 0], scores[:4, 1]])
    ragged = {"x": (rows, [0, 6, 10]), "y": (np.array([[1], [2], [3]]), [0, 2, 3])}
    check(lambda x, y: L.warpctc(x, y), ragged, lambda x, *_: reference(_side_by_side(x)))


def _side_by_side(x: torch.Tensor) -> torch.Tensor:
    return torch.nn.utils.rnn.pad_sequence([x[:6], x[6:]])


def test_what_the_likeliest_classes_spell() -> None:
    ids = np.array([[1, 1, 0, 1, 2, 2], [0, 3, 3, 3, 0, 1]])
    scores = np.eye(4, dtype=np.float32)[ids]
    with building() as built:
        x, n = static.data("x", [None, 6, 4]), static.data("n", [None, 1], "int64")
        out, sizes = L.ctc_greedy_decoder(x, 0, n, 9)
        ragged = static.data("r", [None, 4], lod_level=1)
        spelt = L.ctc_greedy_decoder(ragged, 0)
        distance, number = L.edit_distance(spelt, static.data("w", [None, 1], "int64", lod_level=1), False)
        share, _ = L.edit_distance(out, static.data("v", [None, 3], "int64"), True, None, sizes, n)
    offsets = static.create_lod_tensor(scores.reshape(-1, 4), [[6, 6]])
    words = static.create_lod_tensor(np.array([[1], [2], [3], [3]]), [[2, 2]])
    fed = {"x": scores, "n": np.array([[6], [5]]), "r": offsets, "w": words, "v": np.array([[1, 1, 2], [3, 3, 3]])}
    found = built.run({**fed, "n": np.array([[3], [3]])}, out, sizes, distance, number, share)
    assert found[0].tolist() == [[1, 9, 9, 9, 9, 9], [3, 9, 9, 9, 9, 9]]
    assert found[1].tolist() == [[1], [1]]
    assert found[2].tolist() == [[1.0], [1.0]]
    assert found[3].tolist() == [2]
    np.testing.assert_allclose(found[4], [[2 / 3], [2 / 3]], rtol=1e-6)
    whole = built.run(fed, out, sizes)
    assert whole[0].tolist() == [[1, 1, 2, 9, 9, 9], [3, 9, 9, 9, 9, 9]]
    assert whole[1].tolist() == [[3], [1]]


def test_small_functions() -> None:
    check(lambda x: L.mish(x, 0.5), {"x": X}, lambda x: x * torch.tanh(torch.where(x > 0.5, _above(x), _soft(x))))
    check(lambda x: L.triu(x, 1), {"x": X}, lambda x: torch.triu(x, 1))
    check(lambda x: L.sums(L.unbind(x, 1)), {"x": X}, lambda x: x.sum(1))
    image, factor, shift = normal(2, 3, 4, 5), normal(3), normal(3)
    check(
        lambda x, s, b: L.affine_channel(x, L.reshape(s, [3]), L.reshape(b, [3]), act="relu"),
        {"x": image, "s": factor, "b": shift},
        lambda x, s, b: torch.relu(x * s.view(3, 1, 1) + b.view(3, 1, 1)),
    )
    even = normal(2, 3, 4)
    rates = np.array([1.0, 10000.0])
    waves = np.concatenate([wave(np.arange(3)[:, None] / rates) for wave in (np.sin, np.cos)], 1)
    check(lambda x: L.add_position_encoding(x, 2.0, 0.5), {"x": even}, lambda x: x * 2 + torch.from_numpy(waves) * 0.5)


def _soft(x: torch.Tensor) -> torch.Tensor:
    return functional.softplus(x)


def _above(x: torch.Tensor) -> torch.Tensor:
    return functional.softplus(torch.full_like(x, 0.5)) + x - 0.5


def test_mean_iou() -> None:
    with building() as built:
        guess, label = static.data("g", [None], "int64"), static.data("l", [None], "int64")
        made = L.mean_iou(guess, label, 3)
    found = built.run({"g": np.array([0, 0, 1, 1]), "l": np.array([0, 1, 1, 1])}, *made)
    np.testing.assert_allclose(found[0], [(1 / 2 + 2 / 3) / 2], rtol=1e-6)
    assert [one.tolist() for one in found[1:]] == [[1, 1, 0], [1, 2, 0]]
