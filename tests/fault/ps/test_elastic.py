"""Workers that come and go while a job runs: each sample counts once, whoever leaves, comes, or is killed meanwhile."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Sequence
from pathlib import Path

import pytest

from fleet.net import Hold
from support.data import files_job
from support.durable import elastic_job
from support.jobs import FLEETRUN, RunningJob, clean_environ, fleetrun, running, script
from support.processes import wait_until

pytestmark = pytest.mark.timeout(300)

LIMIT_S = 60.0
PROGRAM = Path(elastic_job.__file__)
ENVIRON = {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(PROGRAM.parents[2])}


def job(folder: Path, workers: str, servers: object = 2, mode: str = "async", more: Sequence[str] = ()) -> RunningJob:
    files_job.write(folder / "data")
    arguments = ["--server_num", servers, "--worker_num", workers, "--durable", "kept", *more, PROGRAM, mode]
    return RunningJob(arguments, folder, ENVIRON, warm=True)


def scale(folder: Path, *arguments: object) -> str:
    """`fleetrun scale kept ...`: what it has said."""
    with running([*FLEETRUN, "scale", "kept", *arguments], folder, clean_environ(), warm=True) as process:
        out, err = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 0, err
    return out + err


def pids(folder: Path, worker: int) -> list[int]:
    """The processes that have been this worker, and have made steps."""
    paths = sorted(folder.glob(f"steps.{worker}.*"), key=lambda path: path.stat().st_mtime)
    return [int(path.suffix[1:]) for path in paths if path.stat().st_size]


def num_steps(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.glob("steps.*"))


def assert_each_sample_once(folder: Path) -> None:
    assert (folder / "saved" / "manifest.json").exists()
    counts = json.loads((folder / "counts.json").read_text())
    assert counts == [elastic_job.NUM_EPOCHS] * files_job.NUM_ROWS


def test_workers_come_and_go_in_an_epoch(tmp_path: Path) -> None:
    with job(tmp_path, "1:4") as running_job:
        wait_until(lambda: num_steps(tmp_path) > 2, LIMIT_S, "the first steps")
        assert scale(tmp_path, "--workers", 4) == "fleetrun: workers: 4\n"
        wait_until(lambda: all(pids(tmp_path, worker) for worker in range(4)), LIMIT_S, "all four to train")
        scale(tmp_path, "--workers", 1)
        assert [path.name for path in (tmp_path / "kept").glob("worker-*/")] == ["worker-0"]
        scale(tmp_path, "--workers", 2)
        wait_until(lambda: len(pids(tmp_path, 1)) == 2, LIMIT_S, "another worker 1 to train")
        (tmp_path / "fast").touch()
        result = running_job.finish()
    assert result.code == 0, result.err
    assert_each_sample_once(tmp_path)
    assert not list((tmp_path / "kept").glob("worker-*/*"))
    assert not (tmp_path / "kept" / "scale").exists()
    for line in ("workers: 4 from now on, instead of 1", "worker 3 has left, and handed back what it had not read"):
        assert line in result.err


def test_a_worker_that_is_told_to_leave_by_somebody_else_is_replaced(tmp_path: Path) -> None:
    with job(tmp_path, "2:3") as running_job:
        wait_until(lambda: pids(tmp_path, 0) and pids(tmp_path, 1), LIMIT_S, "both to train")
        os.kill(pids(tmp_path, 1)[0], signal.SIGTERM)
        wait_until(lambda: len(pids(tmp_path, 1)) == 2, LIMIT_S, "another worker 1")
        os.kill(pids(tmp_path, 0)[0], signal.SIGTERM)
        wait_until(lambda: len(pids(tmp_path, 0)) == 2, LIMIT_S, "another worker 0")
        (tmp_path / "fast").touch()
        result = running_job.finish()
    assert result.code == 0, result.err
    assert_each_sample_once(tmp_path)


def test_a_worker_that_is_told_before_it_knows_what_that_means_leaves_in_its_next_life(tmp_path: Path) -> None:
    def begun() -> list[int]:
        return [int(path.suffix[1:]) for path in tmp_path.glob("begun.1.*")]

    with job(tmp_path, "2:3") as running_job:
        wait_until(lambda: pids(tmp_path, 1), LIMIT_S, "worker 1 to train")
        (tmp_path / "early").touch()
        before = begun()
        os.kill(before[0], signal.SIGKILL)
        wait_until(lambda: len(begun()) == 2, LIMIT_S, "its second life")
        os.kill(next(pid for pid in begun() if pid not in before), signal.SIGTERM)
        (tmp_path / "early").unlink()
        wait_until(lambda: len(begun()) == 4, LIMIT_S, "another worker 1, when its third life has left")
        (tmp_path / "fast").touch()
        result = running_job.finish()
    assert result.code == 0, result.err
    assert_each_sample_once(tmp_path)
    assert result.err.count("worker 1 has left, and handed back what it had not read") == 1


def test_kills_while_the_number_changes(tmp_path: Path) -> None:
    with job(tmp_path, "1:4") as running_job:
        wait_until(lambda: num_steps(tmp_path) > 2, LIMIT_S, "the first steps")
        scale(tmp_path, "--workers", 4)
        wait_until(lambda: all(pids(tmp_path, worker) for worker in range(4)), LIMIT_S, "all four to train")
        with running([*FLEETRUN, "scale", "kept", "--workers", 1], tmp_path, clean_environ(), warm=True) as process:
            for worker in (0, 2, 3):
                os.kill(pids(tmp_path, worker)[0], signal.SIGKILL)
            for path in tmp_path.glob("server.*"):
                os.kill(int(path.suffix[1:]), signal.SIGKILL)
            _, err = process.communicate(timeout=LIMIT_S)
            assert process.returncode == 0, err
        (tmp_path / "fast").touch()
        result = running_job.finish()
    assert result.code == 0, result.err
    assert_each_sample_once(tmp_path)


LOADED = """
    import json
    import os
    import torch
    import fleet
    from support.durable.elastic_job import Counts, counts_of

    strategy = fleet.DistributedStrategy()
    strategy.a_sync = MODE != "sync"
    fleet.init(strategy=strategy)
    if fleet.is_server():
        fleet.run_server()
        raise SystemExit
    model = fleet.distributed_model(Counts(MODE))
    optimizers = model.optimizers()
    fleet.init_worker()
    saves = fleet.Checkpoint("saves", model=model, optimizer=optimizers)
    for name in sorted(os.listdir("saves")):
        step = saves.load(int(name.removeprefix("step-")))
        if fleet.is_first_worker():
            print(json.dumps([step, fleet.steps_done(), sum(counts_of(model, are_equal=MODE == "sync"))]), flush=True)
        fleet.barrier_worker()
    fleet.stop_worker()
"""


@pytest.mark.parametrize("mode", ["async", "sync"])
def test_worker_0_saves_while_others_come_and_go(mode: str, tmp_path: Path) -> None:
    """A job with one number of workers loads every save; each is of one moment.

    In async mode the moment may lie between the two pushes of a batch, one for each optimizer.
    """
    (tmp_path / "saves").mkdir()
    with job(tmp_path, "1:3", mode=mode) as running_job:
        wait_until(lambda: any((tmp_path / "saves").iterdir()), LIMIT_S, "the first save")
        scale(tmp_path, "--workers", 3)
        wait_until(lambda: all(pids(tmp_path, worker) for worker in range(3)), LIMIT_S, "all three to train")
        (tmp_path / "fast").touch()
        os.kill(pids(tmp_path, 0)[0], signal.SIGKILL)
        os.kill(int(next(tmp_path.glob("server.*")).suffix[1:]), signal.SIGKILL)
        result = running_job.finish()
    assert result.code == 0, result.err
    assert_each_sample_once(tmp_path)
    words = ["--server_num", 1, "--worker_num", 2, script(tmp_path, LOADED.replace("MODE", repr(mode)))]
    loaded = fleetrun(*words, cwd=tmp_path, environ=ENVIRON, warm=True)
    assert loaded.code == 0, loaded.err + loaded.out
    found = [json.loads(line) for line in loaded.out.splitlines() if line.startswith("[")]
    assert len(found) >= 2
    assert all(step == done for step, done, _ in found)
    counted = [total for *_, total in found]
    assert counted == sorted(counted)
    assert all(total == int(total) for total in counted)
    assert 0 < counted[-1] <= elastic_job.NUM_EPOCHS * files_job.NUM_ROWS


@pytest.mark.parametrize("mode", ["async", "sync"])
def test_two_machines_have_their_shares(mode: str, tmp_path: Path) -> None:
    """Somebody asks on the second one; each keeps its own folder. A worker of each is killed."""
    files_job.write(tmp_path / "data")
    with Hold.any_port(plain=True) as hold:
        point = hold.endpoint
    counts = ["--server_num", 1, "--worker_num", "1:2", PROGRAM, mode]

    def machine(number: int) -> RunningJob:
        own = ["--rank", number, "--durable", ("kept-0", "kept")[number], "--log_dir", f"log-{number}"]
        return RunningJob(["--master", point, "--nnodes", 2, *own, *counts], tmp_path, ENVIRON, warm=True)

    with machine(0) as first, machine(1) as second:
        wait_until(lambda: pids(tmp_path, 0) and pids(tmp_path, 2), LIMIT_S, "one worker of each to train")
        assert scale(tmp_path, "--workers", 4) == "fleetrun: workers: 4\n"
        wait_until(lambda: all(pids(tmp_path, worker) for worker in range(4)), LIMIT_S, "all four to train")
        for worker in (0, 3):
            os.kill(pids(tmp_path, worker)[0], signal.SIGKILL)
        scale(tmp_path, "--workers", 3)
        assert not (tmp_path / "kept" / "worker-3").exists()
        scale(tmp_path, "--workers", 2)
        assert {path.name for path in tmp_path.glob("kept*/worker-*/")} == {"worker-0", "worker-2"}
        wanted = [json.loads((tmp_path / kept / "scale" / "wanted.json").read_text()) for kept in ("kept-0", "kept")]
        assert [one["workers"] for one in wanted] == [2, 2], "the next run of each begins so"
        (tmp_path / "fast").touch()
        results = first.finish(), second.finish()
    assert [result.code for result in results] == [0, 0], results[0].err + results[1].err
    assert_each_sample_once(tmp_path)


@pytest.mark.parametrize("mode", ["sync", "geo"])
def test_the_other_modes(mode: str, tmp_path: Path) -> None:
    with job(tmp_path, "1:3", mode=mode) as running_job:
        wait_until(lambda: num_steps(tmp_path) > 2, LIMIT_S, "the first steps")
        scale(tmp_path, "--workers", 3)
        wait_until(lambda: all(pids(tmp_path, worker) for worker in range(3)), LIMIT_S, "all three to train")
        os.kill(pids(tmp_path, 2)[0], signal.SIGKILL)
        scale(tmp_path, "--workers", 1)
        (tmp_path / "fast").touch()
        result = running_job.finish()
    assert result.code == 0, result.err
    assert_each_sample_once(tmp_path)


def test_servers_change_too(tmp_path: Path) -> None:
    with job(tmp_path, "1:3", servers="1:2") as running_job:
        wait_until(lambda: num_steps(tmp_path) > 2, LIMIT_S, "the first steps")
        assert scale(tmp_path, "--workers", 3, "--servers", 2).endswith("fleetrun: servers: 2 instead of 1\n")
        scale(tmp_path, "--workers", 1, "--servers", 1)
        (tmp_path / "fast").touch()
        result = running_job.finish()
    assert result.code == 0, result.err
    assert_each_sample_once(tmp_path)


@pytest.mark.exhaustive
def test_a_rule_brings_workers_while_servers_have_little_to_do(tmp_path: Path) -> None:
    rule = "workers to keep servers at 90% of a core, every 1s"
    with job(tmp_path, "1:3", more=["--scale", rule]) as running_job:
        wait_until(lambda: all(pids(tmp_path, worker) for worker in range(3)), LIMIT_S, "three to train")
        (tmp_path / "fast").touch()
        result = running_job.finish()
    assert result.code == 0, result.err
    assert_each_sample_once(tmp_path)
    for wanted in ("and are to be at 90%: 2 workers instead of 1", "3 workers instead of 2"):
        assert wanted in result.err


REFUSED = {
    "fleet.worker_num()": "fleet.worker_num(): workers come and go in this job (--worker_num A:B)",
    "fleet.data.shard([1, 2], 1)": "fleet.data.shard divides data by the number of workers",
    "fleet.data.files('data', SCHEMA, 4)": "fleet.data.files divides data by the number of workers",
    "fleet.barrier_worker()": "all workers meet there, and in this job they come and go",
    "fleet.Checkpoint('c', model=model, optimizer=optimizer, data=fleet.data.files('data', SCHEMA, 4, queue=True))": (
        "fleet.Checkpoint(data=...): workers come and go in this job"
    ),
    "fleet.load_model('saved')": "all workers meet there",
}
CALLS = f"""
    import torch
    import fleet
    from support.data.files_job import SCHEMA
    from support.durable.elastic_job import Counts

    strategy = fleet.DistributedStrategy()
    strategy.a_sync = True
    fleet.init(strategy=strategy)
    if fleet.is_server():
        fleet.run_server()
        raise SystemExit
    model = fleet.distributed_model(Counts("async"))
    optimizer = fleet.distributed_optimizer(torch.optim.SGD(model.parameters(), lr=1.0))
    fleet.init_worker()
    fleet.save_persistables("saved")
    batch = torch.tensor([[1], [2]]), torch.zeros(2)
    print(fleet.evaluate(model, [batch], {{"zero": lambda outputs, _: 0 * outputs}}), flush=True)
    for call in {list(REFUSED)!r}:
        try:
            eval(call)
        except fleet.errors.NotSupportedError as error:
            print(str(error).replace(chr(10), " "), flush=True)
        else:
            print("nothing", flush=True)
    fleet.stop_worker()
"""


def test_what_counts_on_all_workers_is_refused(tmp_path: Path) -> None:
    files_job.write(tmp_path / "data")
    arguments = ["--server_num", 1, "--worker_num", "1:2", "--durable", "kept", script(tmp_path, CALLS)]
    result = fleetrun(*arguments, cwd=tmp_path, environ=ENVIRON, warm=True)
    assert result.code == 0, result.err + result.out
    lines = result.out.splitlines()
    assert lines.pop(0) == "{'zero': 0.0}", "worker 0 measures alone"
    assert len(lines) == len(REFUSED), result.out
    for line, said in zip(lines, REFUSED.values(), strict=True):
        assert said in line
