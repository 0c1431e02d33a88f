"""Which fetches are numbers: those of reductions over all, and of what is computed from them alone."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from fleet import static
from fleet.static import layers
from fleet_paddle.programs.scalars import ScalarExecutor, scalars


@pytest.fixture(autouse=True)
def own_program() -> Iterator[None]:
    with (
        static.program_guard(static.Program(), static.Program()),
        static.scope_guard(static.Scope()),
        static.unique_name.guard(),
    ):
        yield


def test_what_is_a_number() -> None:
    x = static.data("x", [None, 4])
    mean = layers.mean(x)
    numbers = [mean, layers.reduce_sum(x), layers.reduce_max(x, dim=[0, 1]), mean * 2.0 + 1.0, layers.sqrt(mean + mean)]
    vectors = [
        layers.reduce_sum(x, dim=0),
        layers.reduce_sum(x, keep_dim=True),
        layers.fill_constant([1], "float32", 3.0),
        mean + layers.fill_constant([1], "float32", 3.0),
        layers.reshape(mean, [1]),
        layers.create_global_var([1], 0.0, "float32", persistable=True),
    ]
    found = scalars(static.default_main_program().global_block())
    assert {one.name for one in numbers} <= found
    assert not {one.name for one in vectors} & found


def test_numbers_are_fetched_without_a_shape() -> None:
    x = static.data("x", [None, 1])
    bias = layers.fc(x, 1)
    loss = layers.mean(bias)
    static.optimizer.SGD(0.1).minimize(loss)
    exe = ScalarExecutor(static.CPUPlace())
    exe.run(static.default_startup_program())
    feed = {"x": np.ones((1, 1), np.float32)}
    for fetches in ([loss, bias, "fc_0.b_0"], ["fc_0.b_0", loss]):
        values = exe.run(feed=feed, fetch_list=fetches)
        shapes = {getattr(one, "name", one): value.shape for one, value in zip(fetches, values, strict=True)}
        assert shapes[loss.name] == ()
        assert shapes["fc_0.b_0"] == (1,)
    assert exe.run(feed=feed, fetch_list=loss)[0].shape == ()
    assert exe.run(feed=feed, fetch_list=[loss], return_numpy=False)[0].shape == ()
    assert exe.run(feed=feed) == []
