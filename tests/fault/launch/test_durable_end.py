"""The end of a durable job: the same command begins anew after a job that has finished, and goes on after any other."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from support.jobs import LIMIT_S, RunningJob, fleetrun, script
from support.processes import exists, wait_until

pytestmark = pytest.mark.timeout(300)

# `sys.exit(main())` has taken hold of Python's own sys.exit before fleet could watch it.
TRAIN = """
    import os, sys, time
    import torch
    import fleet

    def main():
        fleet.init()
        if fleet.is_server():
            return fleet.run_server()
        me = fleet.worker_index()
        torch.manual_seed(0)
        net = torch.nn.Linear(4, 1)
        model = fleet.distributed_model(net)
        optimizer = fleet.distributed_optimizer(torch.optim.Adam(net.parameters(), lr=0.1))
        fleet.init_worker()
        first = fleet.steps_done()
        samples = torch.randn(48, 4, generator=torch.Generator().manual_seed(1))
        data = fleet.data.shard(samples, batch_size=4)
        for epoch in range(2):
            for batch in data:
                model(batch).square().mean().backward()
                optimizer.step()
                optimizer.zero_grad()
            total = fleet.util.all_reduce(float(epoch + me))
        if me == 0:
            print(first, total, fleet.steps_done(), [value.hex() for value in net.weight[0].tolist()])
            while os.path.exists("hold"):
                time.sleep(0.01)
        fleet.stop_worker()
        with open(f"ended.{me}", "a") as file:
            file.write(f"{os.getpid()}\\n")

    if __name__ == "__main__":
        sys.exit(main())
"""

JOB = ["--server_num", 2, "--worker_num", 2, "--durable", "kept", "train.py"]


def left(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / "kept").rglob("*") if path.is_file())


def test_the_same_command_begins_anew_after_the_end_and_goes_on_after_a_kill(tmp_path: Path) -> None:
    script(tmp_path, TRAIN)
    first = fleetrun(*JOB, cwd=tmp_path, warm=True)
    assert first.code == 0, first.err
    assert first.out.startswith("0 3.0 12 "), first.out
    assert left(tmp_path) == ["lock", "lock"]
    # Killed when one worker has ended, and the other is about to: nothing is removed, and nothing is made twice.
    (tmp_path / "hold").touch()
    (tmp_path / "ended.1").unlink()
    with RunningJob(JOB, tmp_path, warm=True) as job:
        pid = int(job.read("ended.1"))
        wait_until(lambda: not exists(pid), LIMIT_S, "the end of worker 1")
        log = tmp_path / "log/workerlog.0"
        wait_until(lambda: log.read_text().endswith("]\n"), LIMIT_S, "the last step of worker 0")
        assert log.read_text() == first.out  # the second run has begun anew: same steps, same bits
        job.send(signal.SIGKILL)
        job.finish()
    assert left(tmp_path).count("answers") == 2
    (tmp_path / "hold").unlink()
    second = fleetrun(*JOB, cwd=tmp_path, warm=True)
    assert second.code == 0, second.err
    assert "going on with what servers of an earlier run kept in kept" in second.err
    *told, last = second.out.splitlines()
    assert last.split()[1:] == first.out.split()[1:]
    assert int(last.split()[0]) > 0
    assert [f"behind {last.split()[0]} steps" in line for line in told] == [True]  # it asked, and loops over all epochs
    assert "Traceback" not in (tmp_path / "log/workerlog.1").read_text()
    assert left(tmp_path) == ["lock", "lock"]


def test_a_worker_that_is_refused_is_not_tried_again(tmp_path: Path) -> None:
    """Nothing is said of going on, either, though the servers have a journal."""
    train = script(
        tmp_path,
        """
        import os, signal, time
        from fleet.errors import UsageError
        from fleet.jobfiles.ending import note_the_end
        note_the_end()
        journals = [f"{os.environ['FLEET_DURABLE']}/server-{index}/journal-1.log" for index in range(2)]
        if os.environ["TRAINING_ROLE"] == "PSERVER":
            open(journals[int(os.environ["PADDLE_PSERVER_ID"])], "w").close()
        elif os.environ["PADDLE_TRAINER_ID"] == "1":
            while not all(map(os.path.exists, journals)):
                time.sleep(0.01)
            raise UsageError("of another run")
        signal.pause()
        """,
    )
    result = fleetrun(*JOB[:-1], train, cwd=tmp_path)
    assert result.code == 1
    assert "worker 1 is not started again: it would meet the same" in result.err
    assert "started again in its place" not in result.err
    assert "goes on from there" not in result.err
