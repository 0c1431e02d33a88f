"""The user's choice of a network interface: what it matches, and what cannot work on several machines."""

from __future__ import annotations

import logging

import pytest

from fleet import net
from fleet.errors import EndpointError, UsageError
from fleet.launch.arguments.options import Nodes, Options
from fleet.launch.planning import network
from fleet.launch.planning.layout import JobLayout
from fleet.launch.planning.needs import refuse_unreachable
from fleet.launch.planning.network import check_given, matching, network_variables, refuse_unusable
from fleet.net import Endpoint

LO = net.Interface("lo", ("127.0.0.1",))
HERE = (
    LO,
    net.Interface("eth0", ("10.0.0.1",)),
    net.Interface("eth01", ("10.1.0.1",)),
    net.Interface("ib0", ("10.2.0.1",)),
)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("eth", ["eth0", "eth01"]),
        ("eth0", ["eth0", "eth01"]),
        ("=eth0", ["eth0"]),
        ("ib,lo", ["lo", "ib0"]),
        ("^eth", ["lo", "ib0"]),
        ("^=eth0,lo", ["eth01", "ib0"]),
        ("wlan", []),
    ],
)
def test_the_syntax_of_nccl(text: str, names: list[str]) -> None:
    assert [one.name for one in matching(text, HERE)] == names


@pytest.mark.parametrize(
    ("gloo", "nccl", "complaint"),
    [
        ("eth0", "^lo", None),
        ("eth0,ib0", None, None),
        ("eth", None, "GLOO_SOCKET_IFNAME is eth, but there is no interface 'eth' (this machine has eth0 (10.0.0.1), "),
        ("lo", None, "GLOO_SOCKET_IFNAME is lo, loopback, which leads to no other machine"),
        ("eth0,lo", None, "GLOO_SOCKET_IFNAME is eth0,lo, loopback"),
        (None, "lo", "NCCL_SOCKET_IFNAME is lo, loopback"),
        (None, "=eth", "NCCL_SOCKET_IFNAME is =eth, which no interface matches"),
    ],
)
def test_what_the_user_set_must_be_usable_on_several_machines(
    gloo: str | None, nccl: str | None, complaint: str | None
) -> None:
    if complaint is None:
        refuse_unusable(gloo, nccl, HERE)
        return
    with pytest.raises(UsageError) as caught:
        refuse_unusable(gloo, nccl, HERE)
    assert str(caught.value).startswith(complaint)
    assert "unset it and fleetrun chooses" in str(caught.value)


def layout(*hosts: str) -> JobLayout:
    """The layout of a job as the machine at the first host sees it."""
    workers = tuple(Endpoint(host, 6070) for host in hosts)
    return JobLayout((), workers, (), (0,), None, 0, len(hosts))


@pytest.fixture
def chosen(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    """A machine with addresses of three networks, whose way to 10.N.* is its N-th interface, and what it logs."""

    def way_to(peer: str) -> net.Way:
        one = next(one for one in HERE if one.addresses[0][:5] == peer[:5])
        return net.Way(peer, one.name, one.addresses[0], tuple(other for other in HERE if other not in (one, LO)))

    for name in ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("fleet.net.way_to", way_to)
    monkeypatch.setattr("fleet.net.interfaces", lambda: HERE)
    monkeypatch.setattr(network.log, "propagate", True)
    caplog.set_level(logging.INFO, "fleetrun")
    return caplog


def test_the_choice_is_logged_where_there_was_one(chosen: pytest.LogCaptureFixture) -> None:
    assert network_variables(layout("10.0.0.1", "10.0.0.2"), has_gpus=False) == {
        "GLOO_SOCKET_IFNAME": "eth0",
        "NCCL_SOCKET_IFNAME": "=eth0",  # or NCCL would take eth01 too
    }
    assert "network interface eth0 (10.0.0.1) leads to 10.0.0.2; also here: eth01 (10.1.0.1), ib0" in chosen.text
    network_variables(layout("10.0.0.1", "10.0.0.2", "10.2.0.3"), has_gpus=False)
    assert "10.2.0.3 is reached through ib0, the others through eth0" in chosen.text


def test_the_user_s_values_are_passed_on(chosen: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "ib0")
    assert network_variables(layout("10.0.0.1", "10.0.0.2"), has_gpus=False) == {"NCCL_SOCKET_IFNAME": "=eth0"}
    monkeypatch.setenv("NCCL_SOCKET_IFNAME", "wlan")
    assert network_variables(layout("10.0.0.1", "10.0.0.2"), has_gpus=False) == {}
    assert chosen.messages[-1] == "GLOO_SOCKET_IFNAME=ib0, NCCL_SOCKET_IFNAME=wlan: passed on unchanged"
    with pytest.raises(UsageError, match="no interface matches"):
        network_variables(layout("10.0.0.1", "10.0.0.2"), has_gpus=True)


@pytest.mark.usefixtures("chosen")
def test_loopback_is_for_jobs_on_one_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    assert network_variables(layout("127.0.0.1"), has_gpus=False)["GLOO_SOCKET_IFNAME"] == "lo"
    assert network_variables(layout("127.0.0.1", "127.0.0.1"), has_gpus=False)["GLOO_SOCKET_IFNAME"] == "lo"
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "lo")
    network_variables(layout("127.0.0.1", "127.0.0.1"), has_gpus=False)
    check_given(Options("train.py", master="127.0.0.1:6000", nnodes=Nodes(2, 2)), has_gpus=False)
    for several in (Options("train.py", ips=("10.0.0.1", "10.0.0.2")), Options("train.py", master="10.0.0.1:6000")):
        with pytest.raises(UsageError, match="GLOO_SOCKET_IFNAME is lo, loopback"):
            check_given(several, has_gpus=False)
    with pytest.raises(UsageError, match="GLOO_SOCKET_IFNAME is lo, loopback"):
        network_variables(layout("10.0.0.1", "10.0.0.2"), has_gpus=False)


def test_a_peer_whose_name_means_loopback_here_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fleet.net.machine.resolve", lambda host: ("127.0.1.1",) if "node" in host else (host,))
    for variable in ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME"):
        monkeypatch.delenv(variable, raising=False)
    refuse_unreachable(("node-1", "10.0.0.2"), 0)  # its own name may mean anything
    with pytest.raises(UsageError, match=r"--ips names node-2, which resolves to 127\.0\.1\.1 on this machine though"):
        refuse_unreachable(("node-1", "node-2"), 0)
    with pytest.raises(EndpointError, match=r"node-2 is another machine but resolves to 127\.0\.1\.1 here"):
        network_variables(layout("10.0.0.1", "node-2"), has_gpus=False)
