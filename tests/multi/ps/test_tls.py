"""TLS between workers and servers: certificates of the job's own authority on both sides, and nobody without them."""

from __future__ import annotations

import json
import os
import re
import signal
from contextlib import ExitStack
from pathlib import Path

import pytest

from fleet.errors import CommunicationError, UsageError, VariableError
from fleet.launch.tls.authority import Authority
from fleet.net import LOOPBACK, Endpoint
from fleet.ps.proto import ps_pb2
from fleet.ps.server.grpc_server import GrpcServer
from fleet.ps.wire.grpc_client import GrpcTransport
from fleet.ps.wire.trust.tls import Tls
from support.certificates import minted
from support.hosts import two_hosts, why_not
from support.jobs import RunningJob, fleetrun, script
from support.plane.toy_service import ToyService
from support.processes import wait_until
from support.serving.serving import TOKEN

pytestmark = pytest.mark.timeout(300)
LIMIT_S = 60.0
NO_HOSTS = why_not()

TRAIN = """
    import os, stat, sys
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
    name = os.environ.get("FLEET_TLS_KEY", "")
    modes = [oct(stat.S_IMODE(os.stat(path).st_mode)) for path in (name, os.path.dirname(name))] if name else []
    print("key", name or "none", *modes, flush=True)
    {after}
    fleet.barrier_worker()
    fleet.stop_worker()
"""
TELL_PLANES = (
    "print('planes', __import__('json').dumps([one['data_plane'] for one in fleet.server_stats()]), flush=True)"
)


OURS, ALSO_OURS, OTHER = minted("one token"), minted("one token"), minted("another token")


def call(server_tls: Tls | None, client_tls: Tls | None) -> None:
    server = GrpcServer(ToyService(), Endpoint(LOOPBACK, 0), TOKEN, tls=server_tls)
    server.start()
    transport = GrpcTransport(str(server.endpoint), TOKEN, client_tls)
    try:
        transport.call("Push", ps_pb2.PushRequest.Header(), [b"12345678"], LIMIT_S).result(LIMIT_S)
    finally:
        transport.close()
        server.stop(1.0)


def test_machines_that_share_a_token_trust_each_other() -> None:
    assert OURS.key != ALSO_OURS.key
    call(OURS, ALSO_OURS)
    assert b"PRIVATE" not in OURS.certificate + OURS.authority
    assert "PRIVATE" not in repr(OURS)


@pytest.mark.parametrize(
    ("server", "client", "text"),
    [
        (OURS, None, "speaks TLS, and this process does not; set FLEET_TLS_CERT, FLEET_TLS_KEY and FLEET_TLS_CA"),
        (None, OURS, "does not speak TLS, and this process does"),
        (OURS, OTHER, "shows a certificate that another authority signed"),
        (OURS, Tls(OTHER.certificate, OTHER.key, OURS.authority, OURS.name), "refuses the certificate of this process"),
        (OURS, minted("one token", "elsewhere"), "without the name that it should carry: FLEET_TLS_NAME"),
        (OURS, minted("one token", None), r"without the name that it should carry: the host of its endpoint"),
    ],
    ids=["plain client", "plain server", "other authority", "other certificate", "other name", "no name"],
)
def test_what_is_wrong_is_said_and_not_tried_again(server: Tls | None, client: Tls | None, text: str) -> None:
    with pytest.raises(CommunicationError, match=text) as caught:
        call(server, client)
    assert not caught.value.retryable
    assert "\n" not in str(caught.value)


def written(folder: Path, tls: Tls, name: str = "") -> dict[str, str]:
    """The user's own files, and the variables that name them."""
    files = {"CERT": tls.certificate, "KEY": tls.key, "CA": tls.authority}
    for kind, text in files.items():
        (folder / f"{kind}.pem").write_bytes(text)
    named = {f"FLEET_TLS_{kind}": str(folder / f"{kind}.pem") for kind in files}
    return named | ({"FLEET_TLS_NAME": name} if name else {})


def test_the_variables_name_the_files(tmp_path: Path) -> None:
    environ = written(tmp_path, OURS, "fleet-job")
    assert Tls.from_environment(environ) == OURS
    assert Tls.from_environment({}) is None
    with pytest.raises(VariableError, match="FLEET_TLS_KEY is not set; .* set all three or none"):
        Tls.from_environment({"FLEET_TLS_CERT": environ["FLEET_TLS_CERT"]})
    with pytest.raises(VariableError, match="FLEET_TLS_CA names /nowhere, which cannot be read: No such file"):
        Tls.from_environment(environ | {"FLEET_TLS_CA": "/nowhere"})
    with pytest.raises(VariableError, match="FLEET_TLS_CA names .*test_tls.py, which is no PEM file"):
        Tls.from_environment(environ | {"FLEET_TLS_CA": __file__})
    (tmp_path / "KEY.pem").write_bytes(OTHER.key)
    with pytest.raises(UsageError, match="cannot be used: .*mismatch"):
        Tls.from_environment(environ)


def test_a_job_with_tls_leaves_no_key_behind(tmp_path: Path) -> None:
    train = script(tmp_path, TRAIN.format(after=""))
    result = fleetrun("--tls", "--server_num", 2, "--worker_num", 2, train, cwd=tmp_path, warm=True)
    assert result.code == 0, result.err
    found = re.search(r"^key (\S+) 0o600 0o700$", result.out, re.MULTILINE)
    assert found, result.out
    assert not Path(found[1]).parent.exists()
    logs = "".join(path.read_text() for path in (tmp_path / "log").rglob("*") if path.is_file())
    assert "PRIVATE KEY" not in logs + result.out + result.err


def test_a_job_on_one_machine_needs_none(tmp_path: Path) -> None:
    train = script(tmp_path, TRAIN.format(after=""))
    outer = {"FLEET_TLS_NAME": "fleet-job", "FLEET_TLS_CERT": "/of/an/outer/job"}
    result = fleetrun("--server_num", 1, "--worker_num", 1, train, cwd=tmp_path, environ=outer, warm=True)
    assert result.code == 0, result.err
    assert "key none\n" in result.out


def test_a_launcher_that_is_killed_leaves_no_key_behind(tmp_path: Path) -> None:
    waiting = "open('ready', 'w').write(name + chr(10)); __import__('signal').pause()"
    train = script(tmp_path, TRAIN.format(after=waiting))
    with RunningJob(["--tls", "--server_num", 1, "--worker_num", 1, train], tmp_path, warm=True) as job:
        folder = Path(job.read("ready")).parent
        assert folder.exists()
        os.kill(job.pid, signal.SIGKILL)
        wait_until(lambda: not folder.exists(), LIMIT_S, "the guard to remove the key")


def test_the_users_own_certificates_are_used(tmp_path: Path) -> None:
    environ = written(tmp_path, OURS, "my-cluster") | {"FLEET_TLS_NAME": ""}
    train = script(tmp_path, TRAIN.format(after=""))
    result = fleetrun("--server_num", 1, "--worker_num", 1, train, cwd=tmp_path, environ=environ, warm=True)
    assert result.code == 1  # they do not carry 127.0.0.1
    assert "the host of its endpoint (or set FLEET_TLS_NAME)" in result.out + result.err
    authority = Authority.from_token("of my own")
    certificate, key = authority.issue("my-cluster")
    environ = written(tmp_path, Tls(certificate, key, authority.certificate), "my-cluster")
    result = fleetrun("--server_num", 1, "--worker_num", 1, train, cwd=tmp_path, environ=environ, warm=True)
    assert result.code == 0, result.err
    assert f"key {tmp_path}/KEY.pem" in result.out


@pytest.mark.parametrize(
    ("arguments", "environ", "text"),
    [
        (("--tls", "--nproc_per_node", 2), {}, "--tls: a collective job talks by Gloo or NCCL"),
        (("--tls", "--server_num", 1, "--worker_num", 1), {"PYTHONPATH": "{cwd}"}, "pip install 'torch-fleet[tls]'"),
        (("--server_num", 1, "--worker_num", 1), {"FLEET_TLS_KEY": "x"}, "FLEET_TLS_CERT is not set"),
    ],
    ids=["collective", "no package", "one variable"],
)
def test_a_mistake_is_one_line(
    tmp_path: Path, arguments: tuple[object, ...], environ: dict[str, str], text: str
) -> None:
    (tmp_path / "cryptography.py").write_text("raise ImportError('not installed')")
    settings = {name: value.format(cwd=tmp_path) for name, value in environ.items()}
    result = fleetrun(*arguments, script(tmp_path, "pass"), cwd=tmp_path, environ=settings)
    assert result.code == 2, result
    assert text in result.err
    assert result.err.count("\n") == 1


@pytest.mark.netns
@pytest.mark.skipif(NO_HOSTS is not None, reason=NO_HOSTS or "")
@pytest.mark.parametrize(
    "given", ["", pytest.param("a-token-of-ours-that-nobody-guesses", marks=pytest.mark.exhaustive)]
)
def test_machines_encrypt_by_themselves(tmp_path: Path, given: str) -> None:
    """Each server has one worker on its own machine, by shared memory, and one on the other, by TLS; gRPC has none."""
    train = script(tmp_path, TRAIN.format(after=f"fleet.barrier_worker(); {TELL_PLANES}"))
    with two_hosts() as hosts, ExitStack() as stack:
        arguments = ["--master", f"{hosts[0].address}:6000", "--nnodes", 2, "--server_num", 1, "--worker_num", 1, train]
        jobs = []
        for number, host in enumerate(hosts):
            (tmp_path / f"host{number}").mkdir()
            environ, cwd = {"FLEET_JOB_TOKEN": given}, tmp_path / f"host{number}"
            jobs.append(stack.enter_context(RunningJob(arguments, cwd, environ, host.prefix, warm=True)))
        results = [job.finish() for job in jobs]
    assert [result.code for result in results] == [0, 0], results
    keys = [re.search(r"^key (\S+) 0o600 0o700$", result.out, re.MULTILINE) for result in results]
    assert all(keys), results
    assert len({found[1] for found in keys if found}) == 2
    told = re.findall(r"^planes (.*)$", results[0].out, re.MULTILINE)
    planes = [(one["connections"], one["tls_connections"], one["pulls"] >= 10) for one in json.loads(told[0])]
    assert planes == [(2, 1, True)] * 2, told


@pytest.mark.exhaustive
@pytest.mark.netns
@pytest.mark.skipif(NO_HOSTS is not None, reason=NO_HOSTS or "")
def test_machines_must_agree_about_tls(tmp_path: Path) -> None:
    train = script(tmp_path, TRAIN.format(after=""))
    with two_hosts() as hosts, ExitStack() as stack:
        arguments = ["--master", f"{hosts[0].address}:6000", "--nnodes", 2, "--server_num", 1, "--worker_num", 1, train]
        jobs = []
        for number, (host, more) in enumerate(zip(hosts, ([], ["--no-tls"]), strict=True)):
            (tmp_path / f"host{number}").mkdir()
            environ = {"FLEET_INIT_TIMEOUT_S": "5"}
            cwd = tmp_path / f"host{number}"
            jobs.append(stack.enter_context(RunningJob([*more, *arguments], cwd, environ, host.prefix, warm=True)))
        results = [job.finish() for job in jobs]
    assert all(result.code for result in results)
    assert any(re.search(r"started with .*--no-tls.*; make them equal", result.err) for result in results), results
