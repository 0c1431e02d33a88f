"""Training whose floats travel in fewer bytes: what is lost, what is not, and that nothing is sent or counted twice."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from torch import nn

import fleet
from fleet.errors import StrategyError, UsageError
from fleet.nn import Embedding
from fleet.nn.collection import Slot
from fleet.ps.job import entries, initializers, rules
from fleet.ps.job.dense_spec import DenseBlock, DenseSpec
from fleet.ps.job.difference import difference
from fleet.ps.job.spec import JobSpec, TableSpec
from fleet.ps.server.service import Service
from fleet.ps.wire.formats import decoded_rows
from fleet.ps.wire.transport import LocalTransport
from fleet.ps.worker.calling.server_set import ServerSet
from fleet.ps.worker.sending.encoding import Encoder
from fleet.ps.worker.sending.gradients import Gradients, TablePush
from fleet.strategy.parameter_server import FORMATS
from support.durable.server_state import everything
from support.parity.training import (
    batch,
    dense_of,
    exported,
    first_model,
    in_threads,
    joined,
    rows_of,
    served,
    strategy,
)

if TYPE_CHECKING:
    from fleet.ps.wire.messages import Tensors
    from fleet.ps.wire.transport import Answer

pytestmark = pytest.mark.timeout(120)

MODES = ["sync", "async", "half", "geo"]
BF16 = {"rows": "bfloat16", "gradients": "bfloat16", "dense": "bfloat16", "dense_gradients": "bfloat16"}
SMALLEST = {"rows": "int8", "gradients": "int8", "dense_gradients": "int8", "dense_topk": 0.5}
SGD = rules.SGD(lr=1.0)


def job(nonfinite: str = "error", size: int = 100, groups: tuple[Any, ...] = (SGD,), **dense: Any) -> JobSpec:
    shapes = tuple((f"w{group}", (size,)) for group in range(len(groups)))
    blocks = tuple(DenseBlock(name, 0, size, 0, group) for group, (name, _) in enumerate(shapes))
    table = TableSpec("ads", 2, SGD, initializers.Constant(0.0), entries.AlwaysEntry())
    return JobSpec(1, 1, "async", nonfinite, (table,), DenseSpec(groups, shapes, blocks, **dense))


def sent(encoder: Encoder, *groups: np.ndarray[Any, Any]) -> list[Any]:
    """What servers read of one push."""
    lrs = dict.fromkeys(range(len(groups)), 1.0)
    encoded = encoder.encode(Gradients(0, dense=[[group.tobytes() for group in groups]], lrs=lrs)).encoded
    assert encoded is not None
    return encoded.values()[0]


# What is not sent is not lost.


@pytest.mark.parametrize(
    "dense",
    [{"gradient_format": name} for name in FORMATS[1:]] + [{"topk": 0.02}, {"topk": 0.1, "gradient_format": "int8"}],
)
def test_a_small_gradient_is_not_lost_beside_a_large_one(dense: dict[str, Any]) -> None:
    encoder, grads = Encoder(job(**dense), 0), np.full(100, 1e-4, np.float32)
    grads[7] = 1.0
    total = np.zeros(100)
    for _ in range(1000):
        total += sent(encoder, grads)[0]
    np.testing.assert_allclose(total, 1000 * grads.astype(np.float64), rtol=0, atol=0.02)
    assert total.min() > 0.08


def test_the_largest_are_a_share_of_each_push() -> None:
    encoder = Encoder(job(topk=0.03), 0)
    grads = np.arange(100, dtype=np.float32)
    np.testing.assert_array_equal(np.flatnonzero(sent(encoder, grads)[0]), [97, 98, 99])
    np.testing.assert_array_equal(np.flatnonzero(sent(encoder, grads)[0]), [94, 95, 96])


def test_running_statistics_travel_as_they_are() -> None:
    encoder = Encoder(job(groups=(SGD, rules.Average()), gradient_format="int8", topk=0.1), 0)
    values = np.random.default_rng(0).normal(size=100).astype(np.float32)
    first, second = sent(encoder, values, values)
    np.testing.assert_array_equal(second, values)
    assert np.count_nonzero(first) == 10


@pytest.mark.parametrize("dense", [{"gradient_format": "bfloat16"}, {"gradient_format": "int8"}, {"topk": 0.1}])
def test_a_step_that_is_skipped_spoils_no_other(dense: dict[str, Any]) -> None:
    """Servers leave out a NaN. Were it in what is added to the next gradients, they would leave out all of them."""
    encoder, other = (Encoder(job("skip", **dense), 0) for _ in range(2))
    grads = np.random.default_rng(0).normal(size=100).astype(np.float32)
    sent(encoder, grads), sent(other, grads)
    spoiled = grads.copy()
    spoiled[::2] = np.nan
    np.testing.assert_array_equal(sent(encoder, spoiled)[0], spoiled)
    np.testing.assert_array_equal(sent(encoder, grads)[0], sent(other, grads)[0])


def test_another_state_of_the_servers_begins_anew(tmp_path: Path) -> None:
    with joined(strategy=strategy("sync", wire_configs={"dense_topk": 0.1})) as one:
        one.train(3)
        residuals = one.worker.client.encoder._residuals
        assert any(left.any() for left in residuals.values())
        one.fleet.save_persistables(tmp_path / "saved")
        one.fleet.load_model(tmp_path / "saved")
        assert not residuals


# In every mode.


def trained(mode: str, num_workers: int, num_servers: int, wire: dict[str, Any], steps: int = 30) -> tuple[Any, Any]:
    """Rows by key and dense parameters after some steps."""

    def train(index: int) -> dict[str, torch.Tensor]:
        given = strategy(mode, wire_configs=wire)
        with joined(endpoints, index, num_workers, strategy=given, model=first_model(0)) as one:
            one.train(steps, ahead=True)
            one.fleet.stop_worker()
            return {name: value.detach().clone() for name, value in one.model.named_parameters() if value.numel()}

    with served(num_servers) as (endpoints, services):
        dense = in_threads(*(partial(train, index) for index in range(num_workers)))[0]
        found = [exported(service) for service in services]
        rows = {key: row for one in found for key, row in zip(one["keys"].tolist(), one["values"], strict=True)}
        return rows, dense


def apart(a: tuple[Any, Any], b: tuple[Any, Any]) -> float:
    assert a[0].keys() == b[0].keys()
    rows = max(float(np.abs(a[0][key] - b[0][key]).max()) for key in a[0])
    return max(rows, *(float((a[1][name] - b[1][name]).abs().max()) for name in a[1]))


def test_two_by_two_in_sync_are_near_one_process() -> None:
    exact = trained("sync", 2, 2, {})
    rounded = trained("sync", 2, 2, BF16)
    assert 0 < apart(rounded, exact) < 0.02
    assert apart(trained("sync", 2, 1, BF16), rounded) == 0, "rows are rounded one by one, wherever they lie"
    assert apart(trained("sync", 2, 2, BF16), rounded) == 0, "the same again"


def loss_after(mode: str, wire: dict[str, Any]) -> tuple[float, float]:
    """Before training and after."""
    with joined(strategy=strategy(mode, wire_configs=wire), model=first_model(0)) as one:

        def loss() -> float:
            with torch.no_grad():
                found = [nn.functional.mse_loss(one.model(ids), target) for ids, target in map(batch, range(40))]
            return float(torch.stack(found).mean())

        before = loss()
        one.train(60, ahead=True)
        one.fleet.flush()
        return before, loss()


@pytest.mark.parametrize("mode", MODES)
def test_every_mode_learns_as_well(mode: str) -> None:
    before, exact = loss_after(mode, {})
    assert exact < before - 0.2
    for wire in (BF16, SMALLEST):
        assert abs(loss_after(mode, wire)[1] - exact) < 0.005, wire


def test_nothing_chosen_is_nothing_new(monkeypatch: pytest.MonkeyPatch) -> None:
    """No header has a field of formats, and float32 said aloud is the same bits."""
    names: set[str] = set()
    call = LocalTransport.call

    def look(transport: LocalTransport, name: str, header: Any, tensors: Tensors, timeout_s: float) -> Answer:
        if name in ("Pull", "Push"):
            names.update(field.name for field, _ in header.ListFields())
        if name == "Push":
            names.update(f"table.{field.name}" for one in header.tables for field, _ in one.ListFields())
        return call(transport, name, header, tensors, timeout_s)

    monkeypatch.setattr(LocalTransport, "call", look)
    found = []
    for wire in ({}, dict.fromkeys(BF16, "float32")):
        with joined(strategy=strategy("sync", wire_configs=wire)) as one:
            one.train(5, ahead=True)
            found.append(dense_of(one.model))
    assert found[0] == found[1]
    assert {"tables", "pull_tables", "table.lr"} <= names
    assert not {name for name in names if "format" in name}


# Exactly once.


@pytest.mark.parametrize("mode", ["sync", "half"])  # async is another every time, and so is geo
def test_a_push_that_is_sent_again_is_the_same_bytes(mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    call = LocalTransport.call

    def twice(transport: LocalTransport, name: str, header: Any, tensors: Tensors, timeout_s: float) -> Answer:
        if name == "Push" and header.sequence % 2:
            before = [np.asarray(tensor).tobytes() for tensor in tensors]
            call(transport, name, header, tensors, timeout_s).result()
            assert before == [np.asarray(tensor).tobytes() for tensor in tensors]
        return call(transport, name, header, tensors, timeout_s)

    found = []
    for is_repeated in (False, True):
        if is_repeated:
            monkeypatch.setattr(LocalTransport, "call", twice)
        with joined(strategy=strategy(mode, wire_configs=SMALLEST), model=first_model(0)) as one:
            one.train(9)
            one.fleet.flush()
            [stats] = one.stats()
            found.append((dense_of(one.model), stats["repeated_pushes"] > 0, stats["pushes"]))
    assert [repeated for _, repeated, _ in found] == [False, True]
    assert found[0][0] == found[1][0]
    assert found[0][2] == found[1][2]


@pytest.mark.parametrize("mode", MODES)
def test_a_journal_has_what_arrived(mode: str, tmp_path: Path) -> None:
    """Recovered, a server is the one that died, bit for bit."""
    wire = {**SMALLEST, "dense": "bfloat16"}
    service = Service(journal=(tmp_path / "server-0", "OS"))
    with served([service]) as (endpoints, _), joined(endpoints, strategy=strategy(mode, wire_configs=wire)) as one:
        one.train(10, ahead=mode == "sync")
        one.worker.policy.flush()
        copy = shutil.copytree(tmp_path / "server-0", tmp_path / "died", ignore=shutil.ignore_patterns("lock"))
    again = Service(journal=(copy, "OS"))
    again.close()
    assert everything(again) == everything(service)


@pytest.mark.parametrize("dense", [{"gradient_format": "int8"}, {"topk": 0.1}])
def test_other_servers_read_the_same_numbers(dense: dict[str, Any]) -> None:
    """A push that is under way when the number of servers changes is cut anew, and not rounded anew."""
    one = replace(job(**dense), tables=(replace(job().tables[0], gradient_format="int8"),))
    blocks = (DenseBlock("w0", 0, 64, 0, 0), DenseBlock("w0", 64, 100, 1, 0))
    two = replace(one, num_servers=2, dense=replace(one.dense, blocks=blocks))
    keys, generator = torch.arange(50), torch.Generator().manual_seed(0)
    part = TablePush(0, 1.0, keys, torch.randn(50, 2, generator=generator), [0, 50])
    grads = torch.randn(100, generator=generator).numpy()
    gradients = Encoder(one, 0).encode(Gradients(0, [part], [[grads.tobytes()]], {0: 1.0}))
    assert gradients.encoded is not None
    declared, other = (ServerSet([None] * now.num_servers, now, one) for now in (one, two))  # type: ignore[list-item]
    assert declared.encoded(gradients) == (gradients.encoded.tensors, gradients.encoded.forms)
    tensors, forms = other.encoded(gradients)
    assert not forms
    np.testing.assert_array_equal(np.concatenate([buffers[0] for buffers in tensors]), gradients.encoded.values()[0][0])
    parts = other.push(gradients.tables[0])
    wanted = dict(zip(keys.tolist(), gradients.tables[0].values(2), strict=True))
    for sent_keys, data in parts:
        rows = decoded_rows(data, gradients.tables[0].format, (len(sent_keys), 2), "rows")
        assert len(rows) > 10
        for key, row in zip(np.asarray(sent_keys).tolist(), rows, strict=True):
            np.testing.assert_array_equal(row, wanted[key])


# Said once, or for each table, and by everybody alike.


def test_a_table_has_a_choice_of_its_own() -> None:
    def formats(wire: Any, configs: dict[str, Any]) -> list[Any]:
        with joined(strategy=strategy("sync", wire_configs=configs), model=first_model(0, wire=wire)) as one:
            [table] = one.worker.client.job.tables
            return [table.row_format, table.gradient_format]

    assert formats(None, {}) == ["float32", "float32"]
    assert formats(None, {"rows": "bfloat16"}) == ["bfloat16", "float32"]
    assert formats("float32", {"rows": "bfloat16", "gradients": "int8"}) == ["float32", "float32"]
    assert formats(("bfloat16", "int8"), {}) == ["bfloat16", "int8"]
    assert Slot("ads", 4, wire="int8").request.spec("", SGD).row_format == "int8"


@pytest.mark.parametrize(
    ("make", "line"),
    [
        (lambda: Embedding(4, "ads", wire="bf16"), "table 'ads': wire of rows must be \"float32\" or .*, got 'bf16'"),
        (lambda: Embedding(4, "ads", wire=("int8", "x")), "table 'ads': wire of gradients must be .*, got 'x'"),
        (lambda: Embedding(4, "ads", wire=("int8",)), "wire must be a format, or one for rows and one for gradients"),  # type: ignore[arg-type]
        (lambda: Embedding(4, "ads", wire=8), "wire of rows must be"),  # type: ignore[arg-type]
        (lambda: strategy(wire_configs={"rows": "fp16"}), 'strategy.wire_configs.rows must be "float32" or'),
        (lambda: strategy(wire_configs={"dense": "int8"}), "strategy.wire_configs.dense must be"),
        (lambda: strategy(wire_configs={"dense_topk": 1.5}), "strategy.wire_configs.dense_topk must be > 0 and < 1"),
        (lambda: strategy(wire_configs={"dense_topk": 0}), "strategy.wire_configs.dense_topk must be"),
    ],
)
def test_what_is_refused_when_it_is_set(make: Callable[[], object], line: str) -> None:
    with pytest.raises((UsageError, StrategyError), match=line):
        make()


def test_workers_that_disagree() -> None:
    with served() as (endpoints, _), joined(endpoints, 0, 2, strategy=strategy("async")):
        given = strategy("async", wire_configs={"gradients": "int8"})
        line = "table 'ads': gradient_format is int8 here, float32 in the declaration of the others"
        with pytest.raises(UsageError, match=line), joined(endpoints, 1, 2, strategy=given):
            pass
    line = "dense parameters: topk is 0.1 here, None in the declaration of the others"
    assert difference(job(topk=0.1), job()) == line


@pytest.mark.parametrize("name", ["dense", "dense_gradients"])
def test_dense_formats_are_for_servers_that_have_dense_parameters(name: str) -> None:
    given = strategy("sync", dense="allreduce", wire_configs={name: "bfloat16"})
    with pytest.raises(UsageError, match=f"wire_configs.{name} = 'bfloat16': with strategy.dense = 'allreduce'"):
        with joined(strategy=given):
            pass
    with joined(strategy=strategy("sync", dense="allreduce", wire_configs={"rows": "bfloat16"})) as one:
        one.train(2)


def test_a_collective_job_has_no_such_wire() -> None:
    with pytest.raises(fleet.errors.NotSupportedError, match="strategy.wire_configs.rows is for jobs with servers"):
        strategy_of = fleet.DistributedStrategy()
        strategy_of.wire_configs.rows = "int8"
        strategy_of.require_supported(is_collective=True)


def test_parameters_that_come_rounded_were_not_changed_by_hand() -> None:
    with joined(strategy=strategy("sync", wire_configs={"dense": "bfloat16"})) as one:
        one.train(2)
        module = one.model
        assert isinstance(module, nn.Module)
        weight = module.out.weight  # type: ignore[union-attr]
        assert isinstance(weight, nn.Parameter)
        torch.testing.assert_close(weight, weight.bfloat16().float(), rtol=0, atol=0)
        with torch.no_grad():
            weight.copy_(weight.clone())  # written, and the same
        one.train(2, 3)
        one.fleet.stop_worker()
        assert not torch.equal(weight, weight.bfloat16().float()), "at the end they are read in full"


def test_a_worker_that_was_away_has_what_the_others_have() -> None:
    """Its next life reads dense parameters as they come with a step."""
    given = strategy("sync", wire_configs={"dense": "bfloat16"})
    with served() as (endpoints, _):
        for steps in ((0, 3), (3, 3)):
            with joined(endpoints, strategy=given) as one:
                one.train(*steps)
                weight = one.model.out.weight  # type: ignore[union-attr]
                assert isinstance(weight, nn.Parameter)
                assert torch.equal(weight, weight.bfloat16().float())
                assert one.worker.client.resumed_updates == steps[0]


def test_rows_of_every_server_are_as_one() -> None:
    """Chance is that of keys and steps, so the number of servers changes no bit."""
    wire = {"gradients": "int8", "rows": "int8"}
    found = []
    for num_servers in (1, 2):
        with served(num_servers) as (endpoints, services):
            with joined(endpoints, strategy=strategy("sync", wire_configs=wire), model=first_model(0)) as one:
                one.train(10)
                found.append(rows_of(services))
    assert found[0] == found[1]
