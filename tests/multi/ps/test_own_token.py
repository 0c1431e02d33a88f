"""Servers and workers of one user on one machine, started by hand: no token to set, and no other user is served."""

from __future__ import annotations

import os
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest

from fleet.errors import CommunicationError, UsageError
from fleet.net import Endpoint, Hold
from fleet.ps.proto import ps_pb2
from fleet.ps.server.process import serve
from fleet.ps.wire.trust import own_token
from support.jobs import LIMIT_S, clean_environ, running, script
from support.plane.toy_service import ToyService
from support.serving.serving import REAL, reached, server_process

TRAIN = """
    import torch
    from torch import nn
    import fleet

    fleet.init()
    model = fleet.distributed_model(nn.Sequential(fleet.nn.Embedding(4, "ads", rule=fleet.rules.SGD(0.1))))
    optimizer = fleet.distributed_optimizer(torch.optim.SGD(model.parameters(), 0.1))
    if fleet.is_server():
        fleet.init_server()
        fleet.run_server()
    else:
        fleet.init_worker()
        model(torch.arange(8)).square().mean().backward()
        optimizer.step()
        fleet.stop_worker()
        print("trained")
"""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("FLEET_JOB_TOKEN", raising=False)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path / "home"


def test_all_processes_of_a_user_find_the_same_token(home: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        found = set(pool.map(lambda _: own_token.user_token(), range(32)))
    assert len(found) == 1
    (token,) = found
    assert len(token) == 64
    folder = home / ".cache/fleet"
    assert [path.name for path in folder.iterdir()] == ["loopback-token"]
    assert (folder / "loopback-token").stat().st_mode & 0o777 == 0o600


def test_the_token_of_the_job_comes_first_and_other_addresses_have_none(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for host in ("10.0.0.1", "0.0.0.0", "cluster-7"):
        assert own_token.token_for(Endpoint(host, 6170)) is None
    assert not home.exists()
    for host in ("127.0.0.1", "localhost", "::1"):
        assert own_token.token_for(Endpoint(host, 6170)) == own_token.user_token()
    monkeypatch.setenv("FLEET_JOB_TOKEN", "of the job")
    assert own_token.token_for(Endpoint("127.0.0.1", 6170)) == "of the job"


def test_a_home_that_cannot_be_written_is_no_hindrance(home: Path) -> None:
    home.write_text("a file")
    token = own_token.user_token()
    assert own_token.user_token() == token
    folder = home.parent / f"fleet-{os.getuid()}"
    assert folder.stat().st_mode & 0o777 == 0o700
    assert (folder / "loopback-token").read_text().strip() == token


@pytest.mark.parametrize(
    ("mode", "text", "why"), [(0o644, "x" * 64, "can be read or changed by others"), (0o600, "short", "holds no token")]
)
def test_a_token_that_others_may_know_is_refused(home: Path, mode: int, text: str, why: str) -> None:
    path = home / ".cache/fleet/loopback-token"
    path.parent.mkdir(parents=True)
    path.write_text(text)
    path.chmod(mode)
    with pytest.raises(UsageError, match=f"{path} {why}.*; remove it, and a new one is made"):
        own_token.user_token()


def test_a_server_without_a_token_of_a_job_serves_its_user_alone(home: Path) -> None:
    with server_process(REAL, token=None, environ={"HOME": str(home)}) as server, ExitStack() as stack:
        ours, strangers, nobodys = (
            stack.enter_context(reached(server.endpoint, token)) for token in (own_token.user_token(), "guess", None)
        )
        for transport, what in ((strangers, "another token"), (nobodys, "no token")):
            with pytest.raises(CommunicationError, match=f"this process has {what}; set FLEET_JOB_TOKEN to the same"):
                transport.call("Stats", ps_pb2.StatsRequest.Header(), (), LIMIT_S).result(LIMIT_S)
        with pytest.raises(Exception, match="no worker has declared a job yet"):
            ours.call("Stats", ps_pb2.StatsRequest.Header(), (), LIMIT_S).result(LIMIT_S)


def test_everybody_is_served_if_asked_for(home: Path) -> None:
    program = (*REAL, "--allow_anonymous")
    with (
        server_process(program, token=None, environ={"HOME": str(home)}) as server,
        reached(server.endpoint, None) as one,
    ):
        with pytest.raises(Exception, match="no worker has declared a job yet"):
            one.call("Stats", ps_pb2.StatsRequest.Header(), (), LIMIT_S).result(LIMIT_S)


@pytest.mark.exhaustive
def test_a_job_by_variables_alone_needs_no_token(home: Path, tmp_path: Path) -> None:
    train = script(tmp_path, TRAIN)
    with Hold.any_port() as hold, ExitStack() as stack:
        common = {
            "FLEET_JOB_ID": "test",  # the port is held here, as by fleetrun
            "PADDLE_PSERVERS_IP_PORT_LIST": str(hold.endpoint),
            "PADDLE_TRAINERS_NUM": "1",
            "HOME": str(home),
        }
        roles = [
            {"TRAINING_ROLE": "PSERVER", "POD_IP": "127.0.0.1", "PADDLE_PORT": str(hold.endpoint.port)},
            {"TRAINING_ROLE": "TRAINER", "PADDLE_TRAINER_ID": "0"},
        ]
        command = [sys.executable, str(train)]
        jobs = [
            stack.enter_context(running(command, tmp_path, {**clean_environ(), **common, **role}, warm=False))
            for role in roles
        ]
        said = [job.communicate(timeout=LIMIT_S) for job in jobs]
        assert [job.poll() for job in jobs] == [0, 0], said
    assert said[1][0] == "trained\n"


def test_a_short_token_on_a_network_is_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    service = ToyService()
    service.finished.set()
    assert serve(service, Endpoint("0.0.0.0", 0), "secret")
    assert "FLEET_JOB_TOKEN has 6 characters, which others may guess; openssl rand -hex 32 makes a good" in caplog.text
    caplog.clear()
    assert serve(service, Endpoint("0.0.0.0", 0), "a token of some length")
    assert serve(service, Endpoint("127.0.0.1", 0), "secret")
    assert "characters" not in caplog.text
