"""What `--standby` refuses, and what the processes of a job with copies are told."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from fleet.errors import UsageError
from fleet.jobfiles.terms import Term
from fleet.launch.arguments.options import Nodes, Options
from fleet.launch.meet.agree import layout_of
from fleet.launch.meet.beginning import begin
from fleet.launch.meet.messages import Offer
from fleet.launch.meet.team import Round
from fleet.launch.planning.machine import Machine
from fleet.launch.planning.make import find_needs, make_plan
from fleet.launch.planning.mistakes import refuse_mistakes
from fleet.launch.planning.script import COPY_COMMAND
from fleet.launch.planning.standby_job import moved_worker, with_copies
from fleet.launch.standby.keeper import VIEW
from fleet.launch.standby.kept import KeptHere
from fleet.launch.standby.orders import ServerSeat
from fleet.net import Endpoint

HOSTS = ("10.0.0.1", "10.0.0.2", "10.0.0.3")
OPTIONS = Options(
    "train.py", durable="kept", standby="sync", master="10.0.0.1:6000", nnodes=Nodes(3, 3), server_num=2, worker_num=1
)


def offers(num_servers: int = 2) -> tuple[Offer, ...]:
    def ports(host: str, first: int, number: int) -> tuple[Endpoint, ...]:
        return tuple(Endpoint(host, first + one) for one in range(number))

    return tuple(
        Offer(host, ports(host, 10, num_servers), ports(host, 20, 1), None, "", ports(host, 30, num_servers))
        for host in HOSTS
    )


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (replace(OPTIONS, durable=None), "--standby sync: copies follow the journals of --durable; add --durable DIR"),
        (replace(OPTIONS, master=None, nnodes=Nodes(1, 1)), "this job has one; start it on two or more"),
        (
            replace(OPTIONS, master=None, nnodes=Nodes(1, 1), server_num=None, worker_num=None),
            "a collective job has no servers",
        ),
        (
            Options("train.py", durable="kept", standby="async", servers="127.0.0.1:6170", workers="127.0.0.1"),
            "--standby async: a copy is on another machine than its server, and this job has one",
        ),
    ],
)
def test_what_cannot_work_is_refused_in_one_line(
    options: Options, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").touch()
    with pytest.raises(UsageError, match=said) as refused:
        refuse_mistakes(options)
        find_needs(options, Machine())
    assert "\n" not in str(refused.value)


def test_machines_agree_on_copies_and_hold_ports_for_them() -> None:
    needs = find_needs(OPTIONS, Machine())
    assert needs.ports.copies == needs.ports.servers
    assert needs.meeting_place is not None
    assert "--durable, --standby sync, --server_num 2" in needs.meeting_place.terms


def test_the_copy_of_each_server_is_on_the_next_machine() -> None:
    this = Round(0, 0, "", offers(), 1, 0)
    layout, orders = begin(layout_of(this.offers, 1), this)
    assert orders.servers[2:4] == (ServerSeat(1, "10.0.0.2:10"), ServerSeat(1, "10.0.0.2:11"))
    assert orders.copies == tuple(
        ServerSeat(machine, f"{HOSTS[machine]}:{port}") for machine in (1, 2, 0) for port in (30, 31)
    )
    assert orders.term.number == 1
    plan = make_plan(OPTIONS, Machine(folder=Path("/work")), layout, {"GLOO_SOCKET_IFNAME": "eth0"})
    whole = with_copies(OPTIONS, plan, orders)
    assert [process.name for process in whole.processes] == [
        *("server 2", "server 3", "copy of server 0", "copy of server 1", "worker 1")
    ]
    copy = whole.processes[2]
    assert copy.command == COPY_COMMAND
    assert copy.folder == "server-0"
    assert copy.log_path == Path("log/serverlog.0.copy")
    expected = {
        "TRAINING_ROLE": "PSERVER",
        "POD_IP": "10.0.0.2",
        "PADDLE_PORT": "30",
        "PADDLE_PSERVER_ID": "0",
        "FLEET_COPY_OF": "0",
        "FLEET_STANDBY": "SYNC",
        "FLEET_DURABLE": "/work/kept",
        "GLOO_SOCKET_IFNAME": "eth0",
    }
    assert copy.variables | expected == copy.variables
    assert "FLEET_COPY_OF" not in whole.processes[0].variables


def test_a_worker_of_a_lost_machine_is_like_those_that_are_here() -> None:
    layout = layout_of(offers(), 1)
    plan = make_plan(OPTIONS, Machine(worker_gpus=("0",)), layout, {})
    moved = moved_worker(OPTIONS, plan.processes, layout, 2)
    own = plan.processes[-1]
    assert own.name == "worker 1"
    assert moved.name == "worker 2"
    assert moved.command == own.command
    different = {name for name in own.variables if own.variables[name] != moved.variables.get(name)}
    assert different == {"PADDLE_TRAINER_ID", "PADDLE_CURRENT_ENDPOINT"}
    beside_servers = moved_worker(OPTIONS, plan.processes[:2], layout, 2)
    assert beside_servers.variables["FLEET_DEVICE"] == "cpu"
    assert beside_servers.variables["TRAINING_ROLE"] == "TRAINER"
    assert "PADDLE_PORT" not in beside_servers.variables


def kept_by(machine: int, term: Term, servers: tuple[int, ...], *endpoints: str) -> Offer:
    offer = offers(1)[machine]
    return replace(offer, kept=KeptHere(term, endpoints, {one: f"{offer.host}:9{one}" for one in servers}))


def test_the_same_command_goes_on_where_the_journals_are() -> None:
    term = Term(7, ("a:1", "a:2", "c:1"), ("b:1", "", "a:3"))
    met = (
        kept_by(0, term, (0, 1, 2), "a:1", "a:2", "a:3"),
        kept_by(1, replace(term, number=6), (0, 1), "b:1", "b:2"),
        offers(1)[2],
    )
    layout, orders = begin(layout_of(met, 0), Round(0, 0, "", met, 0, 0))
    assert [seat.machine for seat in orders.servers] == [0, 0, 0], "the copy of server 2 goes on, as its machine is new"
    assert [str(server) for server in layout.servers] == ["10.0.0.1:10", "10.0.0.1:91", "10.0.0.1:92"]
    assert layout.local_servers == (0, 1, 2)
    assert orders.number == VIEW
    assert orders.copies == (None, None, None)
    assert orders.fills == (1, 1, 1)
    with pytest.raises(UsageError, match="no machine that has come has server 0 or a whole copy of it"):
        others = (offers(1)[0], offers(1)[1], kept_by(2, term, (2,), "c:1"))
        begin(layout_of(others, 0), Round(0, 0, "", others, 0, 0))


def test_journals_of_a_job_that_had_no_copies_go_on_without_them_at_first() -> None:
    def with_journal(machine: int) -> Offer:
        offer = offers(1)[machine]
        return replace(offer, kept=KeptHere(None, (), {machine: f"{offer.host}:99"}))

    met = tuple(map(with_journal, range(3)))
    layout, orders = begin(layout_of(met, 1), Round(0, 0, "", met, 1, 0))
    assert layout == layout_of(met, 1)
    assert (orders.number, orders.copies, orders.fills) == (1, (None,) * 3, (1, 2, 0))
    with pytest.raises(UsageError, match="server 2 or a whole copy"):
        begin(layout_of(met, 1), Round(0, 0, "", (*met[:2], offers(1)[2]), 1, 0))
