"""The thinking of a plan: plain data in, plain data out. Every figure here can be had with a pencil."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from fleet.errors import UsageError
from fleet_tools.planner import exchange, memory
from fleet_tools.planner.choose import make_plan
from fleet_tools.planner.facts import BlockFacts, DenseFacts, Machines, Measured, Question, TableFacts, Workload
from fleet_tools.planner.memory import TrainingSetup, activation_bytes, measure_tables, state_bytes, worker_memory
from fleet_tools.planner.plan import Plan

GIB = 1 << 30
SEEN = Measured(
    device="cuda",
    threads=4,
    forward_s=0.010,
    backward_s=0.020,
    update_s=0.005,
    is_warm=True,
    parameter_bytes=4 * GIB,
    gradient_bytes=4 * GIB,
    state_bytes=8 * GIB,
    activation_bytes=40 * GIB,
    peak_bytes=44 * GIB,
    process_bytes=2 * GIB,
)
MODEL = Workload(
    model="Net",
    optimizer="Adam",
    batch_size=64,
    is_collective=True,
    tables=(),
    dense=DenseFacts(GIB, 4 * GIB, 4 * GIB, 8 * GIB),
    measured=SEEN,
    block=BlockFacts("layers.*", (GIB,) * 24, 2 * GIB),
)
ADS = TableFacts("ads", 8, 32, 32, num_ids=26_000, num_distinct=10_000)
CLICKS = replace(
    MODEL,
    is_collective=False,
    tables=(ADS,),
    dense=DenseFacts(1000, 4000, 4000, 0, server_bytes=12_000),
    measured=replace(
        SEEN, device="cpu", activation_bytes=1 << 20, parameter_bytes=4000, gradient_bytes=4000, state_bytes=0
    ),
    block=None,
)
HOST = Machines(num_hosts=1, host_memory=64 * GIB, num_cores=16)


def gpus(number: int, size_gib: int, hosts: int = 1) -> Machines:
    return replace(HOST, num_gpus=number, gpu_memory=size_gib * GIB, num_hosts=hosts, host_memory=512 * GIB)


def plan(workload: Workload, machines: Machines, rows: Mapping[str, int] | None = None) -> Plan:
    return make_plan(workload, Question(machines, rows or {}, ("train.py", "--lr", "0.1")))


@pytest.mark.parametrize(
    ("name", "options", "expected"),
    [
        ("SGD", {"momentum": 0}, 0),
        ("SGD", {"momentum": 0.9}, 4000),
        ("Adam", {"amsgrad": False}, 2 * 4000 + 2 * 4),
        ("AdamW", {"amsgrad": True}, 3 * 4000 + 2 * 4),
        ("RMSprop", {"centered": True, "momentum": 0.9}, 3 * 4000 + 2 * 4),
        ("Adagrad", {}, 4000 + 2 * 4),
    ],
)
def test_the_state_of_an_optimizer(name: str, options: dict[str, Any], expected: int) -> None:
    assert state_bytes(name, options, num_tensors=2, parameter_bytes=4000) == expected


@pytest.mark.parametrize(
    ("setting", "parts"),
    [
        (TrainingSetup(), (4, 4, 8, 40)),
        (TrainingSetup(num_workers=8, stage=1), (4, 4, 1, 40)),
        (TrainingSetup(num_workers=8, stage=2), (4.5, 0.5, 1, 40)),
        (TrainingSetup(num_workers=8, stage=3), (0.5 + 64 / 1024, 0.5, 1, 40)),
        (TrainingSetup(has_half=True), (4, 4, 8, 20)),
        (TrainingSetup(recomputes=True), (4, 4, 8, 40 - (24 - 2 - 1))),
        (TrainingSetup(num_merged=4), (4, 4, 8, 10)),
    ],
)
def test_what_a_worker_has(setting: TrainingSetup, parts: tuple[float, ...]) -> None:
    found = worker_memory(MODEL, setting)
    assert (found.parameters, found.gradients, found.state, found.activations) == tuple(int(one * GIB) for one in parts)
    assert found.total == sum(int(one * GIB) for one in parts)


def test_a_row_and_a_table() -> None:
    assert memory.row_bytes(ADS) == 32 + 32 + 25
    known = measure_tables(CLICKS, {"ads": 1_000_000})
    assert (known.rows, known.assumed) == ({"ads": 1_000_000}, ())
    assert known.total == 89_000_000
    assert known.disk_bytes == 1.5 * 80_000_000
    assert known.finding_bytes == 1_700_000
    assumed = measure_tables(CLICKS, {})
    assert (assumed.rows, assumed.assumed) == ({"ads": 10_000_000}, ("ads",))
    assert measure_tables(replace(CLICKS, tables=(replace(ADS, max_rows=7),)), {}).rows == {"ads": 7}


def test_an_all_reduce_and_an_exchange_with_servers() -> None:
    assert exchange.all_reduce_s(MODEL, gpus(8, 80), 1) == 0
    assert exchange.all_reduce_s(MODEL, gpus(8, 80), 8) == pytest.approx(2 * 7 / 8 * 4 * GIB / 50e9)
    assert exchange.all_reduce_s(MODEL, gpus(8, 80, hosts=2), 16) == pytest.approx(2 * 15 / 16 * 4 * GIB / 1.25e9)
    one_way = 10_000 * (8 + 4 * 8) + 4 * 1000
    assert exchange.served_bytes(CLICKS) == one_way
    four = replace(HOST, num_hosts=4)
    assert exchange.served_s(CLICKS, four, num_workers=8, num_servers=4) == pytest.approx(2 * 2 * one_way / 1.25e9)
    assert exchange.served_s(CLICKS, four, num_workers=8, num_servers=1) == pytest.approx(2 * 8 * one_way / 1.25e9)


def test_workers_that_share_cores_take_longer_and_unmeasured_devices_have_no_time() -> None:
    assert exchange.compute_s(CLICKS, HOST, workers_of_host=4) == pytest.approx(0.035)
    assert exchange.compute_s(CLICKS, HOST, workers_of_host=8) == pytest.approx(0.070)
    assert exchange.compute_s(CLICKS, gpus(1, 80), workers_of_host=1) is None


@pytest.mark.parametrize(
    ("machines", "lines", "command"),
    [
        (gpus(8, 80), ["strategy.auto = True"], "fleetrun --nproc_per_node 8 train.py --lr 0.1"),
        (gpus(1, 80), ["strategy.auto = True"], "python train.py --lr 0.1"),
        (gpus(8, 34), ["strategy.sharding_configs.stage = 1"], "fleetrun --nproc_per_node 8 train.py --lr 0.1"),
        (gpus(8, 28), ["stage = 2", 'checkpoints = ["layers.*"]'], "fleetrun --nproc_per_node 8 train.py --lr 0.1"),
        (gpus(1, 30), ['checkpoints = ["layers.*"]'], "python train.py --lr 0.1"),
        (gpus(8, 8), ["stage = 3", "k_steps = 3", "batches of 21"], "fleetrun --nproc_per_node 8 train.py --lr 0.1"),
        (
            gpus(8, 80, hosts=4),
            ["strategy.auto = True"],
            "fleetrun --master HOST_1:6000 --nnodes 4 --nproc_per_node 8 train.py --lr 0.1",
        ),
    ],
)
def test_as_much_is_saved_as_it_takes(machines: Machines, lines: list[str], command: str) -> None:
    found = plan(MODEL, machines).choice
    assert found.fits
    assert found.command == command
    for line in lines:
        assert any(line in one for one in found.code), found.code
    total = next(part for part in found.parts if part.what == "a worker in all")
    assert total.estimate is not None
    assert total.estimate <= memory.usable_gpu(machines.gpu_memory)


def test_what_cannot_fit_says_so() -> None:
    found = plan(MODEL, gpus(1, 4)).choice
    assert not found.fits
    assert any(reason.startswith("it does not fit: ") for reason in found.reasons)


def test_what_a_script_has_chosen_is_not_offered_again_nor_contradicted() -> None:
    found = plan(replace(MODEL, switches=("auto", "lamb", "recompute")), gpus(8, 64)).choice
    assert found.code == ()
    activations = next(one.estimate for one in found.parts if one.what == "activations")
    assert activation_bytes(MODEL, TrainingSetup()) == activations


def test_gpus_need_host_memory_too() -> None:
    found = plan(MODEL, replace(gpus(8, 80), host_memory=8 * GIB)).choice
    assert not found.fits
    assert "host memory" in found.reasons[-1]


@pytest.mark.parametrize(
    ("cores", "command"),
    [(2, "python train.py --lr 0.1"), (16, "fleetrun --server_num 4 --worker_num 4 train.py --lr 0.1")],
)
def test_a_model_with_tables_on_one_machine(cores: int, command: str) -> None:
    found = plan(CLICKS, replace(HOST, num_cores=cores), {"ads": 1_000_000}).choice
    assert found.fits
    assert found.command == command
    assert not found.assumed


def test_rows_that_do_not_fit_lie_on_disks() -> None:
    rows = {"ads": 2_000_000_000}
    found = plan(CLICKS, HOST, rows).choice
    assert found.fits
    room = 0.9 * 64 * GIB - 4 * 2 * GIB - 4 * (300 << 20) - 12_000  # beside workers, empty servers, dense parameters
    assert any(f'memory="{int(room / 4) >> 20}MiB"' in line for line in found.code), found.code
    assert not plan(CLICKS, replace(HOST, disk=100 * GIB), rows).choice.fits
    assert plan(CLICKS, replace(HOST, disk=300 * GIB), rows).choice.fits
    many = plan(CLICKS, HOST, {"ads": 20_000_000_000}).choice
    assert not many.fits
    assert any("take 3 such machines" in reason for reason in many.reasons)


@pytest.mark.parametrize(("gbit", "mode"), [(100, "servers, sync"), (0.2, "servers, async"), (0.01, "servers, geo")])
def test_the_mode_follows_the_network(gbit: float, mode: str) -> None:
    machines = replace(HOST, num_hosts=4, network=gbit * 1e9 / 8)
    assert plan(CLICKS, machines, {"ads": 1000}).choice.mode == mode
    assert plan(replace(CLICKS, mode="half_async"), machines, {"ads": 1000}).choice.mode == "servers, half_async"


HOT = replace(CLICKS, tables=(replace(ADS, cache_rows=1_000_000),))


def test_a_cache_takes_memory_of_the_gpu_and_leaves_one_worker() -> None:
    found = plan(HOT, gpus(1, 80), {"ads": 10_000_000}).choice
    assert found.fits
    assert (found.command, found.num_workers, found.num_servers) == ("python train.py --lr 0.1", 1, 0)
    (part,) = [part for part in found.parts if part.what == "cache of hot rows"]
    assert (part.where, part.estimate) == ("GPU memory", 1_000_000 * (32 + 32 + 12 + 20))
    assert "idle" not in " ".join(found.reasons)
    for machines in (gpus(8, 80), gpus(1, 80, hosts=4)):
        many = plan(HOT, machines, {"ads": 10_000_000}).choice
        assert (many.command, many.num_workers) == (found.command, 1)
        assert any("leaves all but one GPU idle; leave the cache out" in reason for reason in many.reasons)


def test_a_cache_grows_to_what_batches_need() -> None:
    table = replace(ADS, cache_rows=1, num_distinct=100)
    assert memory.cache_bytes(table) == 512 * 96  # of 32, doubled until there are 300
    assert memory.cache_bytes(ADS) == 0


def test_what_a_cache_does_not_go_with() -> None:
    large = plan(HOT, gpus(1, 80), {"ads": 20_000_000_000}).choice
    assert not large.fits
    assert any("rows on disks do not go with cache='gpu'" in reason for reason in large.reasons)
    small = plan(HOT, replace(gpus(1, 80), gpu_memory=GIB // 2), {"ads": 1000}).choice
    assert not small.fits
    assert any("take a smaller cache" in reason for reason in small.reasons)
    host = plan(HOT, HOST, {"ads": 10_000_000}).choice
    assert host.fits
    assert any("saves nothing; leave it out" in reason for reason in host.reasons)


def test_a_table_of_unknown_size_is_asked_about() -> None:
    (text,) = plan(CLICKS, HOST).choice.assumed
    assert text.startswith("table ads: 10,000,000 rows")
    assert text.endswith("--rows ads=N")


@pytest.mark.parametrize(
    ("rows", "words"), [({"adz": 3}, "no such table; its tables are: ads"), ({"ads": 0}, "at least 1, got 0")]
)
def test_rows_of_what_is_not_there(rows: dict[str, int], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        plan(CLICKS, HOST, rows)


@pytest.mark.parametrize("workload", [MODEL, CLICKS])
def test_facts_and_plans_are_json(workload: Workload) -> None:
    assert Workload.from_json(workload.to_json()) == workload
    found = plan(workload, HOST)
    assert json.loads(json.dumps(found.to_json()))["plan"]["command"] == found.choice.command


def test_a_plan_reads_well() -> None:
    text = str(plan(CLICKS, HOST))
    for words in (
        "Net with Adam, batches of 64",
        "one machine with 16 cores, 64 GiB: servers, sync, fits",
        "table ads",
        "10,000,000 rows, assumed",
        "forward 10 ms, backward 20 ms, update 5 ms: 35 ms",
    ):
        assert words in text
