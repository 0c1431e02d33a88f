"""Endpoints and held ports."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from fleet import net
from fleet.errors import EndpointError
from fleet.net import Directory, Endpoint, Hold, Listed
from fleet.net.directory import FileDirectory, add_kind


@pytest.mark.parametrize(
    "text", ["10.0.0.1:6170", "node-1:1", "my_app_worker_1:6170", "a.b.example:65535", "[::1]:80", "[fe80::1]:80"]
)
def test_an_endpoint_prints_as_it_was_written(text: str) -> None:
    assert str(Endpoint.parse(text)) == text


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("10.0.0.1", "has no port"),
        (":80", "has no port"),
        ("", "has no port"),
        ("10.0.0.1:", "has port ''"),
        ("10.0.0.1:0", "has port '0'"),
        ("10.0.0.1:65536", "has port '65536'"),
        ("10.0.0.1:\uff18", "has port"),  # a digit, but not one of ours
        ("10.0.0:80", "neither an IP address nor a host name"),
        ("300.0.0.1:80", "neither an IP address nor a host name"),
        ("a b:80", "neither an IP address nor a host name"),
        ("-a:80", "neither an IP address nor a host name"),
    ],
)
def test_a_malformed_endpoint_is_named(text: str, complaint: str) -> None:
    with pytest.raises(EndpointError) as caught:
        Endpoint.parse(text, "--servers")
    assert str(caught.value).startswith("--servers ")
    assert complaint in str(caught.value)


def test_lists_refuse_gaps_and_repeats() -> None:
    assert net.parse_endpoints("a:1, b:2") == (Endpoint("a", 1), Endpoint("b", 2))
    with pytest.raises(EndpointError, match="empty item"):
        net.parse_endpoints("a:1,,b:2")
    with pytest.raises(EndpointError, match="names a:1 twice"):
        net.parse_endpoints("a:1,b:2,a:1")


def test_a_held_port_is_refused_to_others_and_open_to_us() -> None:
    with Hold.any_port() as hold:
        for options in ((), (socket.SO_REUSEADDR,)):
            for host in ("127.0.0.1", "0.0.0.0"):
                with socket.socket() as thief:
                    for option in options:
                        thief.setsockopt(socket.SOL_SOCKET, option, 1)
                    with pytest.raises(OSError, match="in use"):
                        thief.bind((host, hold.endpoint.port))
        with net.listen(hold.endpoint) as listener, socket.create_connection(listener.getsockname()) as client:
            accepted, _ = listener.accept()
            with accepted:
                client.sendall(b"x")
                assert accepted.recv(1) == b"x"


def test_a_held_port_can_be_listened_on_again_and_again() -> None:
    """A server that comes back finds its port, also while old connections time out."""
    with Hold.any_port() as hold:
        for _ in range(3):
            with net.listen(hold.endpoint) as listener:
                client = socket.create_connection(listener.getsockname())
                accepted, _ = listener.accept()
                accepted.close()  # the server's side closes first and keeps the port in TIME_WAIT
                client.close()


def test_a_port_whose_old_connections_time_out_can_be_held_at_once_and_only_once() -> None:
    with Hold.any_port() as hold:
        endpoint = hold.endpoint
        with net.listen(endpoint) as listener:
            client = socket.create_connection(listener.getsockname())
            accepted, _ = listener.accept()
            accepted.close()
            client.close()
    with Hold(endpoint):
        with pytest.raises(EndpointError, match="is in use"):
            Hold(endpoint)
        with socket.socket() as thief:
            thief.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            with pytest.raises(OSError, match="in use"):
                thief.bind((endpoint.host, endpoint.port))
        with net.listen(endpoint), pytest.raises(EndpointError, match="is in use"):
            Hold(endpoint)
        with pytest.raises(ConnectionRefusedError):  # the hold itself does not listen
            socket.create_connection((endpoint.host, endpoint.port))


def test_a_plain_hold_is_open_to_programs_that_reuse_addresses() -> None:
    with Hold.any_port(plain=True) as hold:
        with socket.socket() as stranger, pytest.raises(OSError, match="in use"):
            stranger.bind(("127.0.0.1", hold.endpoint.port))
        socket.create_server(("127.0.0.1", hold.endpoint.port)).close()


@pytest.mark.parametrize("first_is_plain", [False, True])
@pytest.mark.parametrize("second_is_plain", [False, True])
@pytest.mark.parametrize("is_numbered", [False, True])
def test_two_holds_never_share_a_port(first_is_plain: bool, second_is_plain: bool, is_numbered: bool) -> None:
    with Hold.any_port(plain=first_is_plain) as hold:
        endpoint = hold.endpoint
    with Hold(endpoint, plain=first_is_plain) if is_numbered else Hold.any_port(plain=first_is_plain) as first:
        with pytest.raises(EndpointError, match=f"port {first.endpoint.port} of 127.0.0.1 is in use"):
            Hold(first.endpoint, plain=second_is_plain)


def test_an_address_of_another_machine_cannot_be_held() -> None:
    with pytest.raises(EndpointError, match="203.0.113.1 is not an address of this machine"):
        Hold(Endpoint("203.0.113.1", 0))


def test_this_machine_knows_itself() -> None:
    assert net.is_local("127.0.0.1")
    assert net.is_local("localhost")
    assert not net.is_local("203.0.113.1")
    assert net.interface_of("127.0.0.1") == "lo"
    assert net.interface_of("203.0.113.1") is None
    assert net.local_addresses()[-1] in ("127.0.0.1", "::1")


ETH0 = net.Interface("eth0", ("10.0.0.1", "fd00::1"))
ETH1 = net.Interface("eth1", ("10.1.0.1",))
LO = net.Interface("lo", ("127.0.0.1", "::1", "10.9.9.9"))  # data centres give lo addresses that others reach
HERE = (LO, ETH1, ETH0)


@pytest.fixture
def network(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """A made-up network: what each host resolves to; the way to 10.N.* begins at 10.N.0.1, to 10.9.* at lo."""
    names: dict[str, str] = {}

    def resolve(host: str) -> tuple[str, ...]:
        return (names.get(host, host),)

    def address_toward(host: str) -> str | None:
        ways = {"10.0.": "10.0.0.1", "10.1.": "10.1.0.1", "10.9.": "10.9.9.9"}
        return ways.get(resolve(host)[0][:5])

    monkeypatch.setattr("fleet.net.machine.resolve", resolve)
    monkeypatch.setattr("fleet.net.interface.address_toward", address_toward)
    monkeypatch.setattr("fleet.net.interface.interfaces", lambda: HERE)
    monkeypatch.setattr("fleet.net.interface.outward_address", lambda: "10.1.0.1")
    return names


@pytest.mark.usefixtures("network")
def test_the_interface_that_leads_to_the_peer_is_chosen(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "fleet.net.interface")
    assert net.choose_interface("10.0.0.2") == "eth0"
    assert net.choose_interface("10.1.0.2") == "eth1"
    assert net.choose_interface("10.0.0.1") == "eth0"  # the peer may be this machine
    assert caplog.messages[0] == (
        "network interface eth0 (10.0.0.1) leads to 10.0.0.2; also here: eth1 (10.1.0.1); "
        "set GLOO_SOCKET_IFNAME and NCCL_SOCKET_IFNAME to use another"
    )


def test_loopback_is_never_chosen(network: dict[str, str], caplog: pytest.LogCaptureFixture) -> None:
    network["own-name"] = "127.0.1.1"
    assert net.choose_interface("own-name") == "eth1"  # the way out
    assert net.choose_interface("127.0.0.1") is None
    assert net.choose_interface("192.0.2.1") is None  # no route
    assert net.choose_interface("10.9.0.2") is None
    assert "begins at 10.9.9.9 on lo, the loopback interface" in caplog.text


def test_a_peer_that_resolves_to_loopback_is_refused(network: dict[str, str]) -> None:
    network["node-2"] = "127.0.1.1"
    with pytest.raises(
        EndpointError, match=r"node-2 is another machine but resolves to 127\.0\.1\.1 here; correct /etc/"
    ):
        net.way_to("node-2")


def test_the_interfaces_of_this_machine() -> None:
    found = {one.name: one for one in net.interfaces()}
    assert found["lo"].is_loopback
    assert found["lo"].addresses[0] == "127.0.0.1"


def test_a_directory_says_where_a_server_listens_now(tmp_path: Path) -> None:
    place = net.parse_place(f"file:{tmp_path}/where#1")
    assert isinstance(place, Listed)
    assert str(place) == f"file:{tmp_path}/where#1"
    assert place.directory.find(1) is None
    for port in (1, 2):
        place.directory.announce(1, Endpoint("10.0.0.1", port))
        assert place.directory.find(1) == Endpoint("10.0.0.1", port)
    assert [path.name for path in (tmp_path / "where").iterdir()] == ["server-1"]
    assert net.parse_place("10.0.0.1:1") == Endpoint("10.0.0.1", 1)


def test_an_engine_can_be_the_directory() -> None:
    class Registry(Directory):
        def __init__(self, name: str) -> None:
            self.name = name
            self.found: dict[int, Endpoint] = {}

        def find(self, server: int) -> Endpoint | None:
            return self.found.get(server)

        def announce(self, server: int, endpoint: Endpoint) -> None:
            self.found[server] = endpoint

    registry = Registry("actors")
    add_kind("actors", lambda name: registry if name == "job-1" else Registry(name))
    place = net.parse_place("actors:job-1#0")
    assert isinstance(place, Listed)
    place.directory.announce(0, Endpoint("10.0.0.1", 1))
    assert registry.found == {0: Endpoint("10.0.0.1", 1)}


def test_a_directory_that_cannot_be_written_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(EndpointError, match="File exists; give FLEET_SERVERS a folder"):
        FileDirectory(str(tmp_path / "file")).announce(0, Endpoint("10.0.0.1", 1))
