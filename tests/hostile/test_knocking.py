"""Strangers that knock while a job trains: each is told why it is refused, and the job learns the same as without them.

They come without a token, with another one, without TLS, with a certificate of another job, and with bare bytes.
"""

from __future__ import annotations

import random
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from fleet.errors import CommunicationError
from fleet.launch.tls.authority import Authority
from fleet.net import Endpoint
from fleet.ps.proto import ps_pb2
from fleet.ps.wire.grpc_client import GrpcTransport
from fleet.ps.wire.trust.tls import Tls
from support.jobs import RunningJob, script
from support.plane import raw_http2

pytestmark = pytest.mark.timeout(300)
LIMIT_S = 60.0
TOKEN = "a token that nobody guesses"

TRAIN = """
    import os, sys
    import torch
    from torch import nn
    import fleet

    fleet.init()
    torch.manual_seed(0)
    embedding = fleet.nn.Embedding(4, "ads", rule=fleet.rules.Adagrad(0.1))
    model = fleet.distributed_model(nn.Sequential(embedding, nn.Linear(4, 1)))
    optimizer = fleet.distributed_optimizer(torch.optim.Adam(model.parameters()))
    if fleet.is_server():
        fleet.init_server()
        fleet.run_server()
        sys.exit()
    fleet.init_worker()
    with open("endpoint", "w") as file:
        file.write(f"{fleet.server_endpoints()[0]}\\n")
    step = 0
    while step < 200 or (os.path.exists("knock") and not os.path.exists("enough")):
        if step < 200:
            ids = torch.arange(8) + step % 50 + 3 * fleet.worker_index()
            optimizer.zero_grad()
            loss = model(ids).square().mean()
            loss.backward()
            optimizer.step()
            step += 1
    print("loss", loss.item().hex(), flush=True)
    fleet.barrier_worker()
    fleet.stop_worker()
"""


def tls_of(token: str) -> Tls:
    authority = Authority.from_token(token)
    certificate, key = authority.issue("fleet-job")
    return Tls(certificate, key, authority.certificate, "fleet-job")


OURS, THEIRS = tls_of(TOKEN), tls_of("of another job")
STRANGERS: dict[str, tuple[str | None, Tls | None, str]] = {
    "no token": (None, OURS, "this process has no token; set FLEET_JOB_TOKEN to the same value on every process"),
    "another token": ("guess", OURS, "this process has another token; set FLEET_JOB_TOKEN"),
    "no TLS": (TOKEN, None, "speaks TLS, and this process does not"),
    "another authority": (TOKEN, THEIRS, "shows a certificate that another authority signed"),
    "another certificate": (
        TOKEN,
        Tls(THEIRS.certificate, THEIRS.key, OURS.authority, OURS.name),
        "refuses the certificate of this process",
    ),
}


@contextmanager
def knocking(endpoint: Endpoint) -> Iterator[dict[str, set[str]]]:
    """While the block runs, every kind of stranger calls again and again; what each was told."""
    told: dict[str, set[str]] = {kind: set() for kind in (*STRANGERS, "bytes")}
    is_over = threading.Event()

    def call(kind: str) -> None:
        token, tls, _ = STRANGERS[kind]
        while not is_over.is_set():
            transport = GrpcTransport(str(endpoint), token, tls)
            error = transport.call("Stats", ps_pb2.StatsRequest.Header(), (), LIMIT_S).exception(LIMIT_S)
            transport.close()
            told[kind].add(f"{type(error).__name__}: {error}")

    def shout() -> None:
        rng = random.Random(1)
        while not is_over.is_set():
            with suppress(OSError), raw_http2.connection(endpoint) as raw:
                raw.sendall(rng.choice((rng.randbytes(500), raw_http2.settings(), b"GET / HTTP/1.1\r\n\r\n")))
                raw_http2.read_until_closed(raw, 0.05)
            told["bytes"].add("")

    threads = [threading.Thread(target=call, args=(kind,)) for kind in STRANGERS] + [threading.Thread(target=shout)]
    for thread in threads:
        thread.start()
    try:
        yield told
    finally:
        is_over.set()
        for thread in threads:
            thread.join(LIMIT_S)


def train(folder: Path, *, with_strangers: bool) -> tuple[str, dict[str, set[str]], str]:
    """Run the job; what worker 0 printed, what strangers were told, and what the servers logged."""
    folder.mkdir()
    arguments = ["--tls", "--server_num", 1, "--worker_num", 2, script(folder, TRAIN)]
    told: dict[str, set[str]] = {}
    if with_strangers:
        (folder / "knock").touch()
    with RunningJob(arguments, folder, {"FLEET_JOB_TOKEN": TOKEN}) as job:
        endpoint = Endpoint.parse(job.read("endpoint"))
        if with_strangers:
            with knocking(endpoint) as told:
                while not all(told.values()):
                    assert not job.ends_within(0.05)
            (folder / "enough").touch()
        result = job.finish()
    assert result.code == 0, result
    return result.out, told, (folder / "log" / "serverlog.0").read_text()


@pytest.mark.exhaustive
def test_training_does_not_notice_strangers(tmp_path: Path) -> None:
    alone, _, _ = train(tmp_path / "alone", with_strangers=False)
    beside, told, log = train(tmp_path / "beside", with_strangers=True)
    assert re.fullmatch(r"loss 0x\S+\n", alone)
    assert beside == alone
    for kind, (_, _, text) in STRANGERS.items():
        assert any(text in said for said in told[kind]), told[kind]
        assert all(said.startswith(f"{CommunicationError.__name__}: server 127.0.0.1:") for said in told[kind])
    assert log.count("\n") < 20, log  # they do not fill it
    assert TOKEN not in log
