"""TLS on the data plane: what is on the wire, who is believed, and what happens where there is no OpenSSL."""

from __future__ import annotations

import json
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fleet import _native
from fleet.ps import plane_client, plane_tls
from fleet.ps.plane_tls import PlaneTls, libraries
from fleet.ps.tls import Tls
from support.certificates import authority, minted
from support.hosts import two_hosts, why_not
from support.jobs import RunningJob, script
from support.plane import plane_transport, served
from support.plane_place import KEYS, Place
from support.raw_plane import LIMIT_S
from support.serving import TOKEN

pytestmark = pytest.mark.timeout(300)
NO_HOSTS = why_not()
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


@pytest.mark.parametrize(
    ("carried", "asked", "is_right"),
    [
        ("my-cluster", "my-cluster", True),
        ("*.my-cluster.org", "ps0.my-cluster.org", True),
        ("*.my-cluster.org", "my-cluster.org", False),
        ("my-cluster", "127.0.0.1", False),
        ("127.0.0.1", "127.0.0.1", False),  # an address is no name, as gRPC has it
    ],
)
def test_the_name_of_a_server(carried: str, asked: str, is_right: bool) -> None:
    made = authority(TOKEN)
    certificate, key = made.issue(carried)
    with served("TLS") as one:
        one.tls = Tls(certificate, key, made.certificate)
        one.stop_plane()
        one.start_plane()
        native = PlaneTls(replace(minted(), name=asked)).native
        assert one.plane is not None
        assert native is not None
        arguments = ("127.0.0.1", one.plane._server.port, native, asked, TOKEN.encode(), LIMIT_S)
        if is_right:
            _native.PlaneClient.tls(*arguments).close()
        else:
            with pytest.raises(RuntimeError, match="certificate verify failed .*mismatch"):
                _native.PlaneClient.tls(*arguments)


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
        tls = _native.PlaneTls(["libssl.so.3", "libssl.so.1.1"], *files)
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
        arguments = [place.port, place.header().SerializeToString().hex(), tmp_path, TOKEN, 10]
        subprocess.run([sys.executable, "-c", ENDING, *map(str, arguments)], check=True, timeout=LIMIT_S * 4)
        place.check()


TRAIN = """
    import json, sys
    import torch
    from torch import nn
    import fleet

    fleet.init()
    embedding = fleet.nn.Embedding(4, "ads", rule=fleet.rules.SGD(0.1))
    model = fleet.distributed_model(nn.Sequential(embedding, nn.Linear(4, 1)))
    optimizer = fleet.distributed_optimizer(torch.optim.Adam(model.parameters()))
    if fleet.is_server():
        fleet.init_server()
        fleet.run_server()
        sys.exit()
    fleet.init_worker()
    for step in range(5):
        optimizer.zero_grad()
        model(torch.arange(8) + step).square().mean().backward()
        optimizer.step()
    fleet.barrier_worker()
    if fleet.worker_index() == 0:
        print("plane", json.dumps([server["data_plane"] for server in fleet.server_stats()]), flush=True)
    fleet.barrier_worker()
    fleet.stop_worker()
"""


@pytest.mark.netns
@pytest.mark.skipif(NO_HOSTS is not None, reason=NO_HOSTS or "")
def test_machines_use_it_by_themselves(tmp_path: Path) -> None:
    """Each server has one worker on its own machine, by shared memory, and one on the other, by TLS."""
    train = script(tmp_path, TRAIN)
    with two_hosts() as hosts, ExitStack() as stack:
        arguments = ["--master", f"{hosts[0].address}:6000", "--nnodes", 2, "--server_num", 1, "--worker_num", 1, train]
        jobs = []
        for number, host in enumerate(hosts):
            (tmp_path / f"host{number}").mkdir()
            jobs.append(stack.enter_context(RunningJob(arguments, tmp_path / f"host{number}", {}, host.prefix)))
        results = [job.finish() for job in jobs]
    assert [result.code for result in results] == [0, 0], results
    said = next(line for result in results for line in result.out.splitlines() if "plane [" in line)
    for counts in json.loads(said[said.index("[{") :]):
        assert (counts["connections"], counts["tls_connections"]) == (2, 1), said
        assert counts["pulls"] >= 2 * 5, said
    assert not any("gRPC" in result.err + result.out for result in results), results
