"""Which GPU each worker gets, decided without one."""

from __future__ import annotations

from typing import Any

import pytest

from fleet.errors import UsageError
from fleet.launch.arguments.options import Options
from fleet.launch.planning.devices import assign_gpus, num_local_workers, visible_gpus
from fleet.launch.planning.layout import JobLayout
from fleet.launch.planning.machine import Machine
from fleet.launch.planning.make import make_plan
from fleet.net import Endpoint


@pytest.mark.parametrize(
    ("arguments", "visible", "expected"),
    [
        ({}, "0123", ("0", "1", "2", "3")),
        ({}, "", None),
        ({"device": "cpu"}, "01", None),
        ({"device": "cpu", "gpus": (0, 1)}, "", None),
        ({"nproc_per_node": 2}, "0123", ("0", "1")),
        ({"gpus": (3, 1)}, "0123", ("3", "1")),
        ({"gpus": (1,)}, "57", ("7",)),  # position among CUDA_VISIBLE_DEVICES
        ({"gpus": (0, 1), "nproc_per_node": 4}, "01", ("0", "1", "0", "1")),
    ],
)
def test_gpus_are_dealt_out(arguments: dict[str, Any], visible: str, expected: tuple[str, ...] | None) -> None:
    assert assign_gpus(Options("train.py", **arguments), tuple(visible)) == expected


@pytest.mark.parametrize(
    ("arguments", "visible", "complaint"),
    [
        ({"gpus": (0,)}, "", "--gpus: this machine has no GPU"),
        ({"device": "cuda"}, "", "--device cuda: this machine has no GPU"),
        ({"gpus": (2,)}, "01", "there is no GPU 2; this machine has 2, numbered 0 to 1"),
        ({"nproc_per_node": 3}, "01", "--nproc_per_node 3: this machine has 2 usable"),
        ({"gpus": (0, 1), "nproc_per_node": 3}, "01", "--nproc_per_node 3 does not fit --gpus 0,1"),
    ],
)
def test_gpus_that_are_not_there_are_refused(arguments: dict[str, Any], visible: str, complaint: str) -> None:
    with pytest.raises(UsageError) as caught:
        assign_gpus(Options("train.py", **arguments), tuple(visible))
    assert complaint in str(caught.value)


def test_workers_on_the_cpu() -> None:
    assert num_local_workers(Options("train.py"), None) == 1
    assert num_local_workers(Options("train.py", nproc_per_node=3), None) == 3
    assert num_local_workers(Options("train.py", gpus=(0, 1)), None) == 2


def test_gpus_of_a_job_on_the_cpu_are_numbers_that_scripts_find() -> None:
    workers = tuple(Endpoint("127.0.0.1", port) for port in (6070, 6071))
    layout = JobLayout((), workers, (), (0, 1), Endpoint("127.0.0.1", 6072))
    plan = make_plan(Options("train.py", device="cpu", gpus=(0, 1)), Machine(), layout, {})
    assert [one.variables["FLAGS_selected_gpus"] for one in plan.processes] == ["0", "1"]
    assert {one.variables["FLEET_DEVICE"] for one in plan.processes} == {"cpu"}


def test_cuda_visible_devices_limits_the_choice() -> None:
    assert visible_gpus(4, {}) == ("0", "1", "2", "3")
    assert visible_gpus(4, {"CUDA_VISIBLE_DEVICES": "2, GPU-abc,MIG-def"}) == ("2", "GPU-abc", "MIG-def")
    assert visible_gpus(4, {"CUDA_VISIBLE_DEVICES": "-1"}) == ()


@pytest.mark.parametrize("text", ["", " ", "-1", "none"])
def test_cuda_visible_devices_can_hide_all(text: str) -> None:
    assert visible_gpus(4, {"CUDA_VISIBLE_DEVICES": text}) == ()


@pytest.mark.parametrize("text", ["2,-1,3", "2,,3", "2,x,3", "2,-1,9"])
def test_the_list_ends_where_cuda_stops_reading_it(text: str) -> None:
    assert visible_gpus(4, {"CUDA_VISIBLE_DEVICES": text}) == ("2",)


@pytest.mark.parametrize("environ", [{}, {"CUDA_VISIBLE_DEVICES": "0,1"}, {"CUDA_VISIBLE_DEVICES": "GPU-abc"}])
def test_a_machine_without_gpus_has_none_to_see(environ: dict[str, str]) -> None:
    assert visible_gpus(0, environ) == ()


def test_a_gpu_that_is_not_there_is_refused_by_name() -> None:
    with pytest.raises(UsageError, match="CUDA_VISIBLE_DEVICES=0,4 names GPU 4, but this machine has 4"):
        visible_gpus(4, {"CUDA_VISIBLE_DEVICES": "0,4"})
