"""TLS on the data plane: what is on the wire, who is believed, and what happens where there is no OpenSSL."""

from __future__ import annotations

import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from fleet import _native
from fleet.net import LOOPBACK, Endpoint
from fleet.ps.proto import ps_pb2
from fleet.ps.server.grpc_server import GrpcServer
from fleet.ps.wire import plane_client
from fleet.ps.wire.grpc_client import GrpcTransport
from fleet.ps.wire.trust import plane_tls
from fleet.ps.wire.trust.plane_tls import PlaneTls, libraries
from fleet.ps.wire.trust.tls import Tls
from support.certificates import authority, minted
from support.plane.plane import plane_transport, served
from support.plane.plane_place import KEYS, Place
from support.plane.raw_plane import LIMIT_S
from support.plane.toy_service import ToyService
from support.serving.serving import TOKEN

pytestmark = pytest.mark.timeout(300)
ONES = np.ones(4 * len(KEYS), np.float32).tobytes()


@contextmanager
def listening_in(host: str, port: int) -> Iterator[tuple[int, bytearray]]:
    """A port that passes everything on, one connection, and what has gone through it in both directions."""
    heard = bytearray()

    def pass_on(source: socket.socket, to: socket.socket) -> None:
        try:
            while part := source.recv(1 << 16):
                heard.extend(part)
                to.sendall(part)
            to.shutdown(socket.SHUT_WR)
        except OSError:
            pass

    with socket.create_server((host, 0)) as door:
        door.settimeout(LIMIT_S)

        def serve() -> None:
            with door.accept()[0] as near, socket.create_connection((host, port)) as far:
                back = threading.Thread(target=pass_on, args=(far, near))
                back.start()
                pass_on(near, far)
                back.join()

        thread = threading.Thread(target=serve)
        thread.start()
        yield door.getsockname()[1], heard
        thread.join()


@pytest.mark.parametrize("kind", ["TCP", "TLS"])
def test_neither_token_nor_rows_are_on_the_wire(kind: str) -> None:
    with served(kind) as one:
        place = Place(one, kind)
        with listening_in("127.0.0.1", place.port) as (port, heard):
            if one.tls is None:
                client = _native.PlaneClient.tcp("127.0.0.1", port, TOKEN.encode(), LIMIT_S)
            else:
                native = PlaneTls(one.tls).native
                assert native is not None
                client = _native.PlaneClient.tls("127.0.0.1", port, native, "fleet-job", TOKEN.encode(), LIMIT_S)
            answer = client.call(1, place.header().SerializeToString(), (KEYS,), 0)
            assert answer.wait(LIMIT_S)
            assert answer.tensors[0].tobytes() == ONES
            client.close()
        found = [secret in heard for secret in (TOKEN.encode(), KEYS.tobytes(), ONES)]
        assert found == [kind == "TCP"] * 3
        assert len(heard) > len(ONES)


def test_a_server_that_is_another_is_told_nothing(caplog: pytest.LogCaptureFixture) -> None:
    """Whoever has taken a server's port, with a certificate of another job: gRPC goes on, and one line says why."""
    with served("TLS") as one, served("TLS") as other:
        other.stop_plane()
        other.tls = minted("of another job")
        other.start_plane()
        place = Place(one, "TLS")
        transport: Any = one.transport()
        transport._port = other.plane._server.port  # type: ignore[union-attr]
        for _ in range(3):
            transport.call("Pull", place.header(), (KEYS,), LIMIT_S).result(LIMIT_S)
            transport._not_before = 0.0
            transport._port = other.plane._server.port  # type: ignore[union-attr]
        assert transport._client is None
    told = [line for line in caplog.messages if "no data plane" in line]
    assert len(told) == 1
    assert "certificate verify failed" in told[0]
    assert "go by gRPC" in told[0]


@pytest.mark.parametrize("kind", ["TCP", "TLS"])
def test_a_port_that_is_silent_is_asked_less_and_less(
    kind: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """As behind a firewall: whoever calls waits for it, so it must not be often."""
    monkeypatch.setattr(plane_client, "CONNECT_S", 0.02)
    with served(kind) as one, socket.create_server(("127.0.0.1", 0)) as silent:
        place = Place(one, kind)
        transport: Any = one.transport()
        pauses = []
        for _ in range(9):
            transport._not_before, transport._port = 0.0, silent.getsockname()[1]
            transport.call("Pull", place.header(), (KEYS,), LIMIT_S).result(LIMIT_S)
            pauses.append(transport._pause_s)
        assert pauses == [1, 2, 4, 8, 16, 32, 60, 60, 60]
        assert sum("silent; is it behind a firewall?" in line for line in caplog.messages) == 1
        monkeypatch.setattr(plane_client, "CONNECT_S", LIMIT_S)
        transport._not_before, transport._port = 0.0, place.port
        transport.call("Pull", place.header(), (KEYS,), LIMIT_S).result(LIMIT_S)
        assert transport._client.is_open
        assert transport._pause_s == plane_client.PAUSE_S


def issued(*names: x509.GeneralName) -> Tls:
    """A certificate that the job's authority has signed for other names than fleetrun's."""
    key, made = ec.generate_private_key(ec.SECP256R1()), authority(TOKEN)
    builder = x509.CertificateBuilder().subject_name(x509.Name([])).public_key(key.public_key())
    builder = builder.issuer_name(x509.load_pem_x509_certificate(made.certificate).subject)
    builder = builder.not_valid_before(datetime(2000, 1, 1, tzinfo=UTC)).not_valid_after(
        datetime(9999, 1, 1, tzinfo=UTC)
    )
    builder = builder.serial_number(2).add_extension(x509.SubjectAlternativeName(names), critical=True)
    certificate = builder.sign(made.key, hashes.SHA256())
    text = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return Tls(certificate.public_bytes(serialization.Encoding.PEM), text, made.certificate)


@pytest.mark.parametrize(
    ("carried", "asked", "is_right"),
    [
        (x509.DNSName("my-cluster"), "my-cluster", True),
        (x509.DNSName("my-cluster"), "another", False),
        (x509.DNSName("*.my-cluster.org"), "ps0.my-cluster.org", True),
        (x509.DNSName("*.my-cluster.org"), "a.ps0.my-cluster.org", False),
        (x509.DNSName("*.my-cluster.org"), "my-cluster.org", False),
        (x509.DNSName("my-cluster"), None, False),
        (x509.IPAddress(ip_address("127.0.0.1")), None, True),
        (x509.IPAddress(ip_address("127.0.0.2")), None, False),
    ],
    ids=["name", "another", "star", "two parts", "no part", "no address", "address", "another address"],
)
def test_the_name_of_a_server_is_looked_for_as_by_grpc(
    carried: x509.GeneralName, asked: str | None, is_right: bool
) -> None:
    own, worker = issued(carried), replace(minted(), name=asked)
    server = GrpcServer(ToyService(), Endpoint(LOOPBACK, 0), TOKEN, tls=own)
    server.start()
    transport = GrpcTransport(str(server.endpoint), TOKEN, worker)
    try:
        error = transport.call("Push", ps_pb2.PushRequest.Header(), [b"12345678"], LIMIT_S).exception(LIMIT_S)
    finally:
        transport.close()
        server.stop(1.0)
    assert (error is None) == is_right, error
    with served("TLS") as one:
        one.tls = own
        one.stop_plane()
        one.start_plane()
        assert one.plane is not None
        arguments = (LOOPBACK, LOOPBACK, one.plane._server.port, TOKEN.encode(), LIMIT_S)
        if is_right:
            client = PlaneTls(worker).connect(*arguments)
            assert client is not None
            client.close()
        else:
            with pytest.raises(RuntimeError, match="certificate verify failed .*mismatch"):
                PlaneTls(worker).connect(*arguments)


def test_without_openssl_grpc_does_all_of_it(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """In the server, and in a worker of a server that has it; each says so once."""
    with served("TLS") as one:
        place = Place(one, "TLS")
        monkeypatch.setattr(plane_tls, "libraries", lambda: ["libssl-of-nobody.so"])
        worker = one.transport()
        for _ in range(3):
            worker.call("Pull", place.header(), (KEYS,), LIMIT_S).result(LIMIT_S)
            worker._not_before = 0.0  # type: ignore[attr-defined]
        assert worker._client is None  # type: ignore[attr-defined]
        assert place.counts()["connections"] == 1
        assert sum("libssl-of-nobody.so" in line and "go by gRPC" in line for line in caplog.messages) == 1
        caplog.clear()
        one.stop_plane()
        one.start_plane()
        assert one.plane is not None
        assert one.plane._server.port == 0
        assert sum("libssl-of-nobody.so" in line and "go by gRPC" in line for line in caplog.messages) == 1
        local = plane_transport(worker._inner, "SHM", tls=one.tls)  # type: ignore[attr-defined]
        local.call("Pull", place.header(), (KEYS,), LIMIT_S).result(LIMIT_S)
        assert place.counts()["connections"] == 1, "on one machine nobody needs it"
        local._client.close()  # type: ignore[union-attr]


def test_the_library_is_that_of_python() -> None:
    native = PlaneTls(minted()).native
    assert native is not None
    if len(libraries()) == 3:  # its own is a file
        assert native.library == ssl.OPENSSL_VERSION


ENDING = """
import ctypes, os, signal, sys
from fleet import _native

port, header, folder = int(sys.argv[1]), bytes.fromhex(sys.argv[2]), sys.argv[3]
files = [open(os.path.join(folder, name), "rb").read() for name in ("cert", "key", "ca")]
signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # as programs do that write into pipes
keys = bytes(8 * 50_000)
for number in range(int(sys.argv[5])):
    child = os.fork()
    if child == 0:
        tls = _native.PlaneTls(sys.argv[6:], *files)
        client = _native.PlaneClient.tls("127.0.0.1", port, tls, "fleet-job", sys.argv[4].encode(), 30)
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(client))  # nobody closes it
        answers = [client.call(1, header, (keys,), 0) for _ in range(20)]
        answers[0].wait(30)
        sys.exit(number)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert status == number, status
"""


def test_a_process_that_ends_in_the_middle_of_its_calls_ends_well(tmp_path: Path) -> None:
    """OpenSSL takes itself apart at the end of a process, while other threads still read and write."""
    with served("TLS") as one:
        place = Place(one, "TLS")
        assert one.tls is not None
        for name, text in (("cert", one.tls.certificate), ("key", one.tls.key), ("ca", one.tls.authority)):
            (tmp_path / name).write_bytes(text)
        arguments = [place.port, place.header().SerializeToString().hex(), tmp_path, TOKEN, 10, *libraries()]
        subprocess.run([sys.executable, "-c", ENDING, *map(str, arguments)], check=True, timeout=LIMIT_S * 4)
        place.check()
