"""Layers of click models that had not settled, measures that programs add up, and small names of 1.x."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch

from fleet.errors import NotReadyError, UsageError
from fleet_paddle.programs.networks import contrib_layers as contrib
from fleet_programs.expressions import names
from program_support.programs import building
from program_support.static_ops import check, normal

fluid: Any = importlib.import_module("paddle.fluid")
paddle: Any = importlib.import_module("paddle")
OFFSETS = np.array([0, 2, 2, 5, 6])


@pytest.fixture
def built() -> Iterator[Any]:
    fluid.disable_dygraph()
    with building() as one, fluid.scope_guard(one.scope):
        yield one


def test_parts_of_columns() -> None:
    feeds = {"x": normal(3, 4), "y": normal(3, 4)}
    check(lambda x, y: contrib.partial_concat([x, y], 1, 2), feeds, lambda x, y: torch.cat([x[:, 1:3], y[:, 1:3]], 1))
    check(lambda x, y: contrib.partial_sum([x, y], -3), feeds, lambda x, y: x[:, 1:] + y[:, 1:])
    with building(), pytest.raises(UsageError, match="matrices of one width that has the columns"):
        contrib.partial_sum([fluid.data("x", [None, 4]), fluid.data("y", [None, 4])], 2, 3)


def test_weights_of_each_slot(built: Any) -> None:
    x = fluid.data("x", [2, None, 3])
    out = contrib.batch_fc(x, [2, 3, 4], fluid.ParamAttr("w"), [2, 4], fluid.ParamAttr("b"), "relu")
    with pytest.raises(UsageError, match=r"must be \[slots, batch, in\]"):
        contrib.batch_fc(x, [3, 3, 4], None, [2, 4], None)
    rng = np.random.default_rng(3)
    weight, bias, given = (rng.normal(size=size).astype(np.float32) for size in ((2, 3, 4), (2, 4), (2, 5, 3)))
    built.start(w=weight, b=bias)
    (found,) = built.run({"x": given}, out)
    np.testing.assert_allclose(found, np.maximum(given @ weight + bias[:, None], 0), rtol=1e-5)


def test_rows_of_ids_are_pooled() -> None:
    ids = np.array([[1], [3], [0], [3], [3], [2]])

    def reference(ids: torch.Tensor, table: torch.Tensor) -> torch.Tensor:
        rows = table[ids.view(-1)]
        return torch.stack([rows[begin:end].sum(0) for begin, end in pairwise(OFFSETS)])

    check(
        lambda ids: contrib.fused_embedding_seq_pool(ids, [4, 2], dtype="float64"), {"ids": (ids, OFFSETS)}, reference
    )


def test_sums_of_errors_go_on(built: Any) -> None:
    x, label = fluid.data("x", [None, 1]), fluid.data("label", [None, 1], "int64")
    sums = fluid.contrib.layers.ctr_metric_bundle(x, label)
    built.start()
    said, truth = np.array([[0.25], [0.5], [1.0]], np.float32), np.array([[1], [0], [1]])
    for count in (1, 2):
        found = [float(one.item()) for one in built.run({"x": said, "label": truth}, *sums)]
        sigmoid = 1 / (1 + np.exp(-said))
        away = said - truth
        wanted = [(away**2).sum(), np.abs(away).sum(), said.sum(), sigmoid.sum(), 2, 3]
        assert found == pytest.approx([count * one for one in wanted], rel=1e-5)


def test_a_program_adds_up_chunks(built: Any) -> None:
    tags, label = (fluid.data(name, [None, 1], "int64", lod_level=1) for name in ("tags", "label"))
    evaluator = fluid.evaluator.ChunkEvaluator(tags, label, "IOB", 1)
    exe = fluid.Executor(fluid.CPUPlace())
    with pytest.raises(NotReadyError, match="there are no counts yet"):
        evaluator.eval(exe)
    built.start()
    truth = (np.array([[0], [1], [2], [0]]), [0, 4])  # two chunks
    guess = (np.array([[0], [1], [2], [2]]), [0, 4])  # the first of them
    for tried in (guess, truth):
        exe.run(feed={"tags": tried, "label": truth}, fetch_list=evaluator.metrics)
    precision, recall, f1 = evaluator.eval(exe)
    assert (precision.item(), recall.item(), f1.item()) == pytest.approx((1.0, 0.75, 2 * 0.75 / 1.75))
    evaluator.reset(exe)
    exe.run(feed={"tags": guess, "label": truth}, fetch_list=evaluator.metrics)
    assert evaluator.eval(exe)[1].item() == pytest.approx(0.5)


def test_a_program_adds_up_distances(built: Any) -> None:
    said, label = (fluid.data(name, [None, 1], "int64", lod_level=1) for name in ("said", "label"))
    evaluator = fluid.evaluator.EditDistance(said, label, [0])
    exe = fluid.Executor(fluid.CPUPlace())
    built.start()
    truth = (np.array([[1], [2], [3], [4]]), [0, 2, 4])
    guess = (np.array([[1], [0], [2], [3], [5]]), [0, 3, 5])  # right but for a 0, which is ignored; half wrong
    (mean, share) = exe.run(feed={"said": guess, "label": truth}, fetch_list=evaluator.metrics)
    assert (mean.item(), share.item()) == (0.25, 0.5)
    exe.run(feed={"said": truth, "label": truth})
    assert [one.item() for one in evaluator.eval(exe)] == [0.125, 0.25]


def test_counts_of_names_may_be_exchanged() -> None:
    unique = fluid.unique_name
    with unique.guard():
        first = unique.generator
        assert unique.generate("fc") == "fc_0"
        assert unique.switch() is first
        assert unique.generate("fc") == "fc_0"
        with unique.guard(first):
            assert unique.generate("fc") == "fc_1"
        assert unique.generate("fc") == "fc_1"
        assert isinstance(unique.switch(first), names.Names)
        assert unique.generate("fc") == "fc_2"


def test_places_in_pinned_memory_and_the_other_home_of_the_profiler() -> None:
    assert fluid.cuda_pinned_places(2) == [fluid.CUDAPinnedPlace()] * 2
    assert paddle.utils.profiler.start_profiler is fluid.profiler.start_profiler


def test_a_schedule_that_asks_for_host_memory_trains_by_the_same_rate(built: Any) -> None:
    with fluid.initializer.init_on_cpu():
        rate = fluid.layers.create_global_var([1], 0.5, "float32", persistable=True, name="rate")
    assert not fluid.initializer.force_init_on_cpu()
    first = fluid.ParamAttr("w", fluid.initializer.Constant(1.0), regularizer=fluid.regularizer.L2Decay(1.0))
    assert isinstance(first.regularizer, fluid.regularizer.WeightDecayRegularizer)
    out = fluid.layers.fc(fluid.data("x", [None, 1]), 1, param_attr=first, bias_attr=False)
    assert isinstance(out, fluid.layers.Variable)
    fluid.optimizer.SGD(rate).minimize(fluid.layers.mean(out))
    built.start()
    built.run({"x": np.full((1, 1), 2.0, np.float32)})
    assert built["w"].item() == pytest.approx(1.0 - 0.5 * (2.0 + 1.0))
