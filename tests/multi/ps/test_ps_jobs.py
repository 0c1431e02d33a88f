"""Whole jobs with servers: by fleetrun and by hand, with tokens, dense parameters by all-reduce, and kill -9."""

from __future__ import annotations

import os
import re
import signal
import sys
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import pytest
import torch

from fleet.errors import CommunicationError, UsageError
from fleet.net import Hold
from fleet.ps.server.service import Service
from fleet.ps.wire import messages as wire
from support.jobs import LIMIT_S, RunningJob, clean_environ, fleetrun, running, script
from support.parity.training import Net, dense_of, first_model, in_threads, joined, rows_of, served, strategy
from support.processes import exists
from support.serving.serving import REAL, TOKEN, server_process, serving

pytestmark = pytest.mark.timeout(300)

TRAIN = """
    import os, sys, time
    import torch
    from torch import nn
    import fleet

    fleet.init()
    torch.manual_seed(0)
    {before}
    embedding = fleet.nn.Embedding(width, "ads", rule=fleet.rules.SGD(0.1))
    model = fleet.distributed_model(nn.Sequential(embedding, nn.Linear(4, 1)))
    optimizer = fleet.distributed_optimizer(torch.optim.Adam(model.parameters()))
    if fleet.is_server():
        with open(f"server.{{fleet.server_index()}}", "w") as file:
            file.write(f"{{os.getpid()}}\\n")
        fleet.init_server()
        fleet.run_server()
        sys.exit()
    fleet.init_worker()
    for step in range({steps}):
        ids = torch.arange(8) + step + 100 * fleet.worker_index()
        optimizer.zero_grad()
        model(ids).square().mean().backward()
        optimizer.step()
        if step == 3:
            with open(f"step.{{fleet.worker_index()}}.part", "w") as file:
                file.write(f"{{os.getpid()}}\\n")
            os.rename(file.name, file.name.removesuffix(".part"))
    print("rows", sum(each["tables"]["ads"]["rows"] for each in fleet.server_stats()), flush=True)
    {after}
    fleet.barrier_worker()
    fleet.stop_worker()
"""


def train(folder: Path, steps: int = 10, before: str = "width = 4", after: str = "") -> Path:
    return script(folder, TRAIN.format(steps=steps, before=before, after=after))


def test_a_job_of_fleetrun(tmp_path: Path) -> None:
    saving = "fleet.is_first_worker() and fleet.save_persistables('saved')"
    job = train(tmp_path, after=f"{saving}; fleet.barrier_worker(); fleet.load_model('saved')")
    result = fleetrun("--server_num", 2, "--worker_num", 2, job, cwd=tmp_path, warm=True)
    assert result.code == 0, result.err
    assert result.out == "rows 34\n"
    assert "rows 34" in (tmp_path / "log/workerlog.0").read_text()  # 17 of each worker
    for index in range(2):
        listens, *logged = (tmp_path / f"log/serverlog.{index}").read_text().splitlines()
        assert listens.startswith("Server listening on ")
        told = [
            rf"fleet\.ps\.held\.holdings: server {index} of 2, 2 workers, sync mode; tables: ads \(width 4, sgd\); "
            r"dense parameters: 1\.weight, 1\.bias, \d+ values of them here",
            r"fleet\.ps\.durable\.storage: saved values and state of \d+ rows to .*saved.* in \d+\.\d s",
            r"fleet\.ps\.durable\.storage: loaded \d+ rows of step 10 from .*saved.* in \d+\.\d s",
            r"fleet\.ps\.server: every worker has left",
        ]
        assert len(logged) == len(told), logged
        for line, text in zip(logged, told, strict=True):
            assert re.fullmatch(rf"\d{{4}}-\d\d-\d\d \d\d:\d\d:\d\d INFO {text}", line), line


def test_kill_9_of_a_server_ends_the_job_and_is_its_cause(tmp_path: Path) -> None:
    environ = {"FLEET_RPC_TIMEOUT_S": "20"}
    arguments = ["--server_num", 2, "--worker_num", 2, train(tmp_path, 10**6)]
    with RunningJob(arguments, tmp_path, environ, warm=True) as job:
        workers = [int(job.read(f"step.{index}")) for index in range(2)]
        server = int(job.read("server.1"))
        os.kill(server, signal.SIGKILL)
        result = job.finish()
    assert result.code == 137
    assert re.search(rf"server 1 failed: signal SIGKILL \(9\), exit code 137 \(pid {server}", result.err), result.err
    assert not any(exists(pid) for pid in workers)


def test_workers_that_disagree_end_the_job_with_the_reason(tmp_path: Path) -> None:
    path = train(tmp_path, before="width = 4 + (fleet.is_worker() and fleet.worker_index())")
    result = fleetrun("--server_num", 1, "--worker_num", 2, path, cwd=tmp_path, warm=True)
    assert result.code == 1
    assert re.search(
        r"server 127.0.0.1:\d+: worker [01] does not agree with the job: table 'ads': width is [45] here, [45] in the",
        result.err,
    ), result.err


def test_servers_and_workers_by_hand(tmp_path: Path) -> None:
    """A bare server, and a worker that learns of it from environment variables."""
    with server_process(REAL) as server:
        environ = {
            **clean_environ(),
            "FLEET_JOB_TOKEN": TOKEN,
            "TRAINING_ROLE": "TRAINER",
            "PADDLE_TRAINER_ID": "0",
            "PADDLE_TRAINERS_NUM": "1",
            "PADDLE_PSERVERS_IP_PORT_LIST": str(server.endpoint),
        }
        with running([sys.executable, train(tmp_path)], tmp_path, environ, warm=True) as worker:
            out, err = worker.communicate(timeout=LIMIT_S)
        assert (worker.returncode, out, err) == (0, "rows 17\n", "")
        assert server.finish() == (0, "")


@pytest.mark.parametrize(("token", "what"), [(None, "another token"), ("wrong", "another token")])
def test_a_worker_without_the_token_is_refused_at_once(
    token: str | None, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving(Service(), TOKEN) as server:
        if token:
            monkeypatch.setenv("FLEET_JOB_TOKEN", token)
        with pytest.raises(CommunicationError, match=f"server {server.endpoint}: this process has {what}; set FLEET"):
            with joined([server.endpoint]):
                pass
        monkeypatch.setenv("FLEET_JOB_TOKEN", TOKEN)
        with joined([server.endpoint]) as one:
            one.train(2)


def test_a_token_that_cannot_travel_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLEET_JOB_TOKEN", "schlüssel")
    with serving(Service(), TOKEN) as server:
        with pytest.raises(UsageError, match="FLEET_JOB_TOKEN must be printable ASCII text, the value .* is not shown"):
            with joined([server.endpoint]):
                pass


@pytest.mark.parametrize("mode", ["sync", "async", "half", "geo"])
def test_a_batch_too_large_to_send_is_refused_here(mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with served() as ([endpoint], _), joined([endpoint], strategy=strategy(mode, k_steps=1)) as one:
        one.train(2)
        one.fleet.flush()
        monkeypatch.setattr(wire, "MAX_MESSAGE_BYTES", 5000)
        with pytest.raises(UsageError, match="is over the limit of .*; use smaller batches, or more servers"):
            one.model(torch.arange(3000).view(-1, 3)).sum().backward()
            one.optimizer.step()
            one.fleet.flush()
        monkeypatch.undo()
        assert one.stats()[0]["pushes"] == 2


def test_dense_parameters_by_all_reduce_equal_those_on_servers() -> None:
    """Two workers; the tables are on servers either way."""

    def work(dense: str, index: int) -> dict[str, bytes]:
        given = strategy("sync", dense=dense)
        with joined(endpoints, index, 2, strategy=given, meeting=meeting, optimizer=sgd) as one:
            one.train(6)
            one.fleet.stop_worker()
            return dense_of(one.model)

    def sgd(model: Net) -> torch.optim.Optimizer:
        return torch.optim.SGD(model.parameters(), lr=0.5)

    found = []
    with Hold.any_port() as first, Hold.any_port() as second:
        meeting = [first.endpoint, second.endpoint]
        for dense in ("server", "allreduce"):
            with served(2) as (endpoints, services):
                got = in_threads(*(partial(work, dense, index) for index in range(2)))
                assert got[0] == got[1]
                found.append((got, rows_of(services)))
    assert found[0] == found[1]


def test_parameters_by_all_reduce_begin_as_worker_0_has_them_bit_by_bit() -> None:
    """Three workers: a third of a number, times three, is often another number."""

    def work(index: int) -> tuple[dict[str, bytes], dict[str, bytes]]:
        model = Net()
        with torch.no_grad():
            model.out.weight.fill_(0.1 + index).view(-1)[0] = -0.0
            model.out.bias.fill_(float("inf"))
        before = dense_of(model)
        with joined([endpoint], index, 3, strategy=strategy("sync", dense="allreduce"), meeting=meeting, model=model):
            return before, dense_of(model)

    with ExitStack() as stack:
        meeting = [stack.enter_context(Hold.any_port()).endpoint for _ in range(3)]
        [endpoint], _ = stack.enter_context(served())
        found = in_threads(*(partial(work, index) for index in range(3)))
    first = found[0][0]
    assert [after for _, after in found] == [first, first, first]


def test_a_nan_by_all_reduce_is_refused_on_all_workers() -> None:
    def work(index: int) -> str:
        given = strategy("sync", dense="allreduce")
        model = first_model()
        with joined([endpoint], index, 2, strategy=given, meeting=meeting, model=model) as one:
            one.train(2)
            before = dense_of(model)
            (model.out.weight * (float("nan") if index else 1.0)).sum().backward()
            with pytest.raises(UsageError) as caught:
                one.optimizer.step()
            assert dense_of(model) == before
            return str(caught.value)

    with Hold.any_port() as first, Hold.any_port() as second, served() as ([endpoint], _):
        meeting = [first.endpoint, second.endpoint]
        for index, message in enumerate(in_threads(partial(work, 0), partial(work, 1))):
            assert message.startswith(f"dense parameters: the gradients of worker {index}, step 2 hold a NaN or an Inf")
