"""Options, a machine and what the machines have agreed on give a plan: the same ones the same plan."""

from __future__ import annotations

import os
import socket
from dataclasses import replace
from pathlib import Path
from typing import NoReturn

import pytest

from fleet.launch.arguments.options import Nodes, Options
from fleet.launch.meet.agree import layout_of
from fleet.launch.planning.layout import THE_MEETING_S, JobLayout, Ports
from fleet.launch.planning.machine import Machine
from fleet.launch.planning.make import find_needs, make_plan
from fleet.net import Endpoint

HERE, THERE = "10.0.0.1", "10.0.0.2"
SERVERS = (Endpoint(HERE, 6170), Endpoint(THERE, 6170))
WORKERS = (Endpoint(HERE, 6270), Endpoint(HERE, 6271), Endpoint(THERE, 6270))


def endpoints(host: str, *ports: int) -> tuple[Endpoint, ...]:
    return tuple(Endpoint(host, port) for port in ports)


@pytest.fixture
def nothing_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """No environment, no sockets, no files: whoever asks for one of them fails."""

    def refuse(*_: object, **__: object) -> NoReturn:
        raise AssertionError("a plan is made of its arguments alone")

    class Nothing(dict[str, str]):
        get = __getitem__ = __contains__ = refuse

    monkeypatch.setattr(os, "environ", Nothing())
    monkeypatch.setattr(socket, "socket", refuse)
    for name in ("cwd", "is_file", "exists", "absolute", "open"):
        monkeypatch.setattr(Path, name, refuse)


@pytest.mark.usefixtures("nothing_is_asked")
def test_a_collective_job_on_the_second_of_two_machines() -> None:
    layout = JobLayout((), WORKERS, (), (2,), Endpoint(HERE, 6068), 1, 2)
    machine = Machine(num_cores=8, num_gpus=2, worker_gpus=("1",))
    (worker,) = make_plan(Options("train.py", ("--lr", "1")), machine, layout, {"GLOO_SOCKET_IFNAME": "eth0"}).processes
    assert worker.name == "worker 2"
    assert worker.command[1:] == ("train.py", "--lr", "1")
    assert worker.log_path == Path("log/workerlog.2")
    expected = {
        "RANK": "2",
        "LOCAL_RANK": "0",
        "WORLD_SIZE": "3",
        "GROUP_RANK": "1",
        "GROUP_WORLD_SIZE": "2",
        "MASTER_ADDR": HERE,
        "MASTER_PORT": "6068",
        "GLOO_SOCKET_IFNAME": "eth0",
        "OMP_NUM_THREADS": "8",
        "CUDA_VISIBLE_DEVICES": "1",
        "FLAGS_selected_gpus": "1",
        "FLEET_DEVICE": "cuda",
    }
    assert {name: worker.variables[name] for name in expected} == expected


@pytest.mark.usefixtures("nothing_is_asked")
def test_servers_come_first_and_the_user_s_variables_stay() -> None:
    layout = JobLayout(SERVERS, WORKERS, (0,), (0, 1), None, 0, 2, number=3)
    options = Options("train.py", servers="-", workers="-", durable="kept", journal="always", max_restart=10)
    machine = Machine(num_cores=6, variables={"OMP_NUM_THREADS": "1"}, folder=Path("/work"))
    plan = make_plan(options, machine, layout, {})
    assert [one.name for one in plan.processes] == ["server 0 of layout 3", "worker 0", "worker 1"]
    assert plan.followed.name == "worker 0"
    assert plan.max_lives == 10
    server = plan.processes[0].variables
    assert server["PADDLE_PSERVERS_IP_PORT_LIST"] == "10.0.0.1:6170,10.0.0.2:6170"
    assert (server["FLEET_DURABLE"], server["FLEET_JOURNAL"], server["FLEET_LAYOUT"]) == ("/work/kept", "ALWAYS", "3")
    assert server["FLEET_NATIVE_THREADS"] == "2"  # six cores for three processes
    assert server["FLEET_STEP_THREADS"] == "6"
    assert "OMP_NUM_THREADS" not in server


@pytest.mark.usefixtures("nothing_is_asked")
def test_the_same_arguments_give_the_same_plan_and_it_can_be_told_more() -> None:
    layout = JobLayout((), WORKERS[:2], (), (0, 1), Endpoint(HERE, 6068))
    plan, again = (make_plan(Options("train.py", nproc_per_node=2), Machine(), layout, {}) for _ in range(2))
    assert plan == again
    more = plan.with_variables({"FLEET_TRACE": "1:2"})
    assert [one.variables["FLEET_TRACE"] for one in more.processes] == ["1:2", "1:2"]
    assert all("FLEET_TRACE" not in one.variables for one in plan.processes)
    assert replace(more, processes=plan.processes) == plan


def test_what_one_machine_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FLAGS_START_PORT", raising=False)
    free = Endpoint("127.0.0.1", 0)
    assert find_needs(Options("train.py", nproc_per_node=2), Machine()).ports == Ports((), (free, free), free)
    needs = find_needs(Options("train.py", server_num=1, worker_num=2, start_port=7000), Machine())
    assert needs.ports == Ports(endpoints("127.0.0.1", 7000), endpoints("127.0.0.1", 7001, 7002), None)
    assert needs.meeting_place is None
    monkeypatch.setenv("FLAGS_START_PORT", "8000")
    assert find_needs(Options("train.py"), Machine()).ports == Ports(
        (), endpoints("127.0.0.1", 8000), Endpoint("127.0.0.1", 8001)
    )


def test_machines_that_meet_hold_ports_at_the_address_of_the_meeting() -> None:
    needs = find_needs(Options("train.py", master=f"{HERE}:6000", nnodes=Nodes(1, 4), max_restart=3), Machine())
    assert needs.layout is None
    assert needs.meeting_place is not None
    assert needs.meeting_place.terms == "--nnodes 1:4, --max_restart 3, collective"
    assert {one.host for one in needs.ports.workers} == {THE_MEETING_S}
    assert needs.ports.at(THERE) == Ports((), endpoints(THERE, 0), Endpoint(THERE, 0))


def test_where_addresses_are_named_the_layout_is_known_before() -> None:
    options = Options("train.py", ips=(HERE, THERE), rank=1, nproc_per_node=2, start_port=7000)
    needs = find_needs(options, Machine())
    assert needs.ports == Ports((), endpoints(THERE, 7000, 7001), None), "the master's port is the first machine's"
    assert needs.layout == JobLayout(
        (), (*endpoints(HERE, 7000, 7001), *endpoints(THERE, 7000, 7001)), (), (2, 3), Endpoint(HERE, 6998), 1, 2
    )
    assert needs.meeting_place is not None
    assert (needs.meeting_place.point, needs.meeting_place.rank) == (Endpoint(HERE, 6999), 1)


def test_offers_in_their_order_are_the_layout() -> None:
    first = Ports(endpoints(HERE, 1), endpoints(HERE, 2, 3), None)
    second = Ports(endpoints(THERE, 4, 5), endpoints(THERE, 6), None)
    layout = layout_of([first, second], 1)
    assert layout.servers == (*first.servers, *second.servers)
    assert (layout.local_servers, layout.local_workers) == ((1, 2), (2,))
    assert (layout.node_index, layout.num_nodes, layout.host, layout.peers) == (1, 2, THERE, (HERE,))
