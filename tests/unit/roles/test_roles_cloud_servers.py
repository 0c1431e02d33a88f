"""Servers under PaddleCloudRoleMaker: the list in every spelling, and how a server finds itself in it."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from fleet.errors import EndpointError, FleetError, RoleError
from fleet.net import Endpoint
from fleet.roles import Identity, PaddleCloudRoleMaker, Role

SERVER = {"TRAINING_ROLE": "PSERVER", "PADDLE_TRAINERS_NUM": "2"}
LIST = {"PADDLE_PSERVERS_IP_PORT_LIST": "10.0.0.1:6170,10.0.0.2:6170,10.0.0.2:6171"}


def server(environ: Mapping[str, str]) -> Identity:
    return PaddleCloudRoleMaker(environ={**SERVER, **environ}).identity


@pytest.mark.parametrize(
    ("environ", "index", "servers"),
    [
        pytest.param({**LIST, "PADDLE_PSERVER_ID": "1"}, 1, None, id="id"),
        pytest.param({**LIST, "POD_IP": "10.0.0.2", "PADDLE_PORT": "6171"}, 2, None, id="address"),
        pytest.param({**LIST, "PADDLE_CURRENT_IP": "10.0.0.2", "PADDLE_PORT": "6170"}, 1, None, id="fluid-address"),
        pytest.param({**LIST, "POD_IP": "10.0.0.1"}, 0, None, id="only-server-of-its-host"),
        pytest.param({**LIST, "POD_IP": "7.7.7.7", "PADDLE_PSERVER_ID": "2"}, 2, None, id="id-beats-foreign-address"),
        pytest.param(
            {**LIST, "POD_IP": "10.0.0.2", "PADDLE_PSERVER_ID": "2"}, 2, None, id="id-where-address-is-shared"
        ),
        pytest.param(
            {"PADDLE_PSERVERS": "a,b", "PADDLE_PORT": "6170", "POD_IP": "b"},
            1,
            ["a:6170", "b:6170"],
            id="one-port",
        ),
        pytest.param(
            {"PADDLE_PSERVERS": "a, b", "PADDLE_PORT": "6170,6171", "POD_IP": "b"},
            1,
            ["a:6170", "b:6171"],
            id="port-for-each",
        ),
        pytest.param(
            {"PADDLE_PSERVERS": "a,a", "PADDLE_PORT": "6170,6171", "PADDLE_PSERVER_ID": "1"},
            1,
            ["a:6170", "a:6171"],
            id="two-on-a-host",
        ),
        pytest.param(
            {"PADDLE_PSERVER_IPS": "a,b", "PADDLE_PSERVER_PORT": "6174", "PADDLE_CURRENT_IP": "a"},
            0,
            ["a:6174", "b:6174"],
            id="fluid",
        ),
        pytest.param(
            {
                "PADDLE_PSERVERS_IP_PORT_LIST": "a:1",
                "PADDLE_PSERVERS": "a",
                "PADDLE_PORT": "1",
                "POD_IP": "a",
            },
            0,
            ["a:1"],
            id="two-spellings-agree",
        ),
        pytest.param(
            {"PADDLE_PSERVERS_IP_PORT_LIST": "[::1]:5", "POD_IP": "::1", "PADDLE_PORT": "5"},
            0,
            ["[::1]:5"],
            id="ipv6",
        ),
    ],
)
def test_server_finds_itself(environ: dict[str, str], index: int, servers: list[str] | None) -> None:
    maker = PaddleCloudRoleMaker(environ={**SERVER, **environ})
    assert maker.is_server()
    assert maker.server_index() == index
    assert maker.worker_num() == 2
    assert servers is None or maker.get_pserver_endpoints() == servers


def test_the_guides_own_server() -> None:
    """The server line of the Fluid guide: PADDLE_TRAINER_ID means nothing to a server."""
    who = PaddleCloudRoleMaker(
        environ={
            "PADDLE_PSERVER_PORT": "6174",
            "PADDLE_PSERVER_IPS": "192.168.1.2",
            "PADDLE_TRAINERS": "2",
            "PADDLE_CURRENT_IP": "192.168.1.2",
            "PADDLE_TRAINER_ID": "1",
            "PADDLE_TRAINING_ROLE": "PSERVER",
        }
    ).identity
    assert (who.role, who.index, who.num_workers) == (Role.SERVER, 0, 2)
    assert who.server_endpoints == (Endpoint("192.168.1.2", 6174),)


@pytest.mark.parametrize(
    ("environ", "names"),
    [
        (LIST, ["POD_IP", "PADDLE_PSERVER_ID"]),
        ({**LIST, "POD_IP": "10.0.0.9", "PADDLE_PORT": "6170"}, ["10.0.0.9:6170", "10.0.0.2:6171", "POD_IP"]),
        ({**LIST, "POD_IP": "10.0.0.9"}, ["10.0.0.9", "10.0.0.2:6171", "POD_IP"]),
        ({**LIST, "POD_IP": "10.0.0.2"}, ["PADDLE_PORT", "PADDLE_PSERVER_ID", "10.0.0.2"]),
        ({**LIST, "POD_IP": "a", "PADDLE_CURRENT_IP": "b"}, ["POD_IP=a", "PADDLE_CURRENT_IP=b"]),
        ({**LIST, "PADDLE_PSERVER_ID": "3"}, ["PADDLE_PSERVER_ID", "3 servers"]),
        (
            {**LIST, "PADDLE_PSERVER_ID": "0", "POD_IP": "10.0.0.2", "PADDLE_PORT": "6171"},
            ["PADDLE_PSERVER_ID=0", "10.0.0.2:6171", "server 2"],
        ),
        ({"PADDLE_PSERVERS": "a", "POD_IP": "a"}, ["PADDLE_PORT", "PADDLE_PSERVERS"]),
        ({"PADDLE_PSERVER_IPS": "a", "PADDLE_PORT": "1", "POD_IP": "a"}, ["PADDLE_PSERVER_PORT"]),
        ({"PADDLE_PSERVERS": "a,b,c", "PADDLE_PORT": "1,2"}, ["PADDLE_PORT", "2 ports", "3 hosts"]),
        (
            {"PADDLE_PSERVERS_IP_PORT_LIST": "a:1", "PADDLE_PSERVERS": "b", "PADDLE_PORT": "1"},
            ["PADDLE_PSERVERS_IP_PORT_LIST", "a:1", "PADDLE_PSERVERS with PADDLE_PORT", "b:1"],
        ),
        ({}, ["PADDLE_PSERVERS_IP_PORT_LIST", "PSERVER"]),
    ],
)
def test_errors(environ: dict[str, str], names: list[str]) -> None:
    with pytest.raises(RoleError) as caught:
        server(environ)
    assert [name for name in names if name not in str(caught.value)] == []


@pytest.mark.parametrize(
    ("environ", "name"),
    [
        ({"PADDLE_PSERVERS_IP_PORT_LIST": "a"}, "PADDLE_PSERVERS_IP_PORT_LIST"),
        ({"PADDLE_PSERVERS": "a,a", "PADDLE_PORT": "1"}, "PADDLE_PSERVERS with PADDLE_PORT"),
        ({"PADDLE_PSERVERS": "a,,b", "PADDLE_PORT": "1"}, "PADDLE_PSERVERS"),
        ({"PADDLE_PSERVERS": "a", "PADDLE_PORT": "x"}, "PADDLE_PSERVERS with PADDLE_PORT"),
        ({**LIST, "POD_IP": "10.0.0.1", "PADDLE_PORT": "70000"}, "POD_IP with PADDLE_PORT"),
        ({**LIST, "POD_IP": "not a host"}, "POD_IP"),
    ],
)
def test_malformed_lists_name_the_variable(environ: dict[str, str], name: str) -> None:
    with pytest.raises(EndpointError, match=name) as caught:
        server(environ)
    assert isinstance(caught.value, FleetError | ValueError)
