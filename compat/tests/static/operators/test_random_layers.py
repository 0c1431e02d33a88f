"""Random layers: what they draw, that runs differ unless there is a seed, and sizes that a batch decides."""

from __future__ import annotations

import numpy as np
import pytest

from fleet.errors import NotSupportedError, UsageError
from fleet_programs import layers
from fleet_programs.layers.io import fed
from fleet_programs.program.program import Program
from program_support.programs import building
from program_support.static_ops import SEED, Tried, normal


def test_values_and_that_runs_differ() -> None:
    with building() as built:
        x = fed("x", [-1, 3])
        drawn = [
            layers.uniform_random([1000], "float64", -2.0, 4.0),
            layers.gaussian_random([1000], 3.0, 0.1),
            layers.randint(2, 5, [1000], "int32"),
            layers.uniform_random_batch_size_like(x, [1, 4], min=0.0),
            layers.gaussian_random_batch_size_like(x, [4, 1], 0, 1, dtype="float64"),
        ]
    feed = {"x": np.zeros((2, 3), np.float32)}
    first, again = built.run(feed, *drawn), built.run(feed, *drawn)
    assert all((one != other).any() for one, other in zip(first, again, strict=True))
    assert [one.shape for one in first] == [(1000,), (1000,), (1000,), (2, 4), (4, 2)]
    assert [str(one.dtype) for one in first] == ["float64", "float32", "int32", "float32", "float64"]
    assert -2 <= first[0].min() < -1 < 3 < first[0].max() <= 4
    assert abs(first[1].mean() - 3) < 0.05
    assert set(first[2].tolist()) == {2, 3, 4}
    assert first[3].min() >= 0


def test_a_seed_gives_the_same_values_in_every_run_and_the_program_s_seed_in_every_process() -> None:
    def made(seed: int, whole: int) -> tuple[list[float], list[float]]:
        with building() as built:
            built.main.random_seed = whole
            out = layers.uniform_random([4], seed=seed)
        return built.run({}, out)[0].tolist(), built.run({}, out)[0].tolist()

    assert len({tuple(one) for one in (*made(7, 0), *made(7, 0))}) == 1
    assert made(0, 5) == made(0, 5)
    assert made(0, 5)[0] != made(0, 5)[1]


def test_sizes_that_a_batch_decides() -> None:
    with building() as built:
        x = fed("x", [-1, 3])
        rows = layers.shape(x)[0]
        outs = [
            layers.fill_constant([rows, 2], "int64", 7),
            layers.zeros(layers.shape(x)),
            layers.uniform_random([2, rows]),
        ]
    assert [one.shape for one in outs] == [(-1, 2), (-1, -1), (2, -1)]
    main = Program.parse_from_string(str(built.main))
    assert main.to_json() == built.main.to_json() == Program.from_json(main.to_json()).to_json()
    found = built.run({"x": np.zeros((5, 3), np.float32)}, *outs)
    assert [one.shape for one in found] == [(5, 2), (5, 3), (2, 5)]
    assert found[0].tolist() == [[7, 7]] * 5


def test_sampling_id_draws_by_chance() -> None:
    with building() as built:
        out = layers.sampling_id(fed("x", [-1, 3]))
    probabilities = np.array([[0, 1, 0], [0.5, 0, 0.5]] * 50, np.float32)
    drawn = built.run({"x": probabilities}, out)[0]
    assert set(drawn[::2].tolist()) == {1}
    assert set(drawn[1::2].tolist()) == {0, 2}


def test_shuffle_batch_and_its_gradient() -> None:
    x = normal(4, 2, 3)
    tried = Tried(lambda x: layers.shuffle_batch(x, seed=3), {"x": x})
    weights = normal(4, 2, 3)
    out, order, slope = tried.built.run({"x": x, SEED: weights}, tried.out, "shuffle_batch_0.tmp_1", "x@GRAD")
    rows = x.reshape(8, 3)
    np.testing.assert_array_equal(out.reshape(8, 3), rows[order])
    np.testing.assert_array_equal(slope.reshape(8, 3)[order], weights.reshape(8, 3))
    assert sorted(order.tolist()) == list(range(8))


def test_bad_arguments() -> None:
    with building():
        with pytest.raises(UsageError, match=r"shape must have no -1, got \[-1, 2\]; use layers.shape\(x\)\[0\]"):
            layers.uniform_random([-1, 2])
        with pytest.raises(UsageError, match="dtype must be a float, got int64"):
            layers.gaussian_random([2], dtype="int64")
        with pytest.raises(UsageError, match="low must be below high"):
            layers.randint(3, 3)
        with pytest.raises(UsageError, match="min must not be above max, got 1.0 and 0.0"):
            layers.uniform_random([2], min=1.0, max=0.0)
        with pytest.raises(NotSupportedError, match="min and max must be 0 and 1"):
            layers.sampling_id(fed("x", [2, 2]), 0.5)
