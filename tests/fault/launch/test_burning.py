"""A machine burns, with everything that runs on it and its disk: the job goes on, and comes to the same."""

from __future__ import annotations

import re
import shutil
import signal
from contextlib import ExitStack
from pathlib import Path

import pytest

from support.durable import burning_job
from support.hosts import switched_network, why_not
from support.jobs import Result, fleetrun
from support.machines import Machines
from support.processes import wait_until

REASON = why_not()
pytestmark = [
    pytest.mark.netns,
    pytest.mark.timeout(300),
    pytest.mark.skipif(REASON is not None, reason=REASON or ""),
]
SCRIPT = Path(burning_job.__file__)
LIMIT_S = 120.0
NUM_STEPS, PAUSE_MS, FIRE = 30, 20, 10
ENVIRON = {"OMP_NUM_THREADS": "1", "FLEET_MACHINE_TIMEOUT_S": "5"}


class Job(Machines):
    """A server and a worker on each machine."""

    def __init__(self, stack: ExitStack, folder: Path, num: int, mode: str = "sync") -> None:
        network = stack.enter_context(switched_network(num))
        arguments = ["--standby", "sync", "--server_num", 1, "--worker_num", 1, SCRIPT, mode, NUM_STEPS, PAUSE_MS]
        super().__init__(stack, network, folder, arguments, ENVIRON, warm=True)

    def wait_for_step(self, step: int) -> None:
        """Until worker 0 has come that far, wherever it is."""
        said = re.compile(rf"^step {step} ", re.MULTILINE)

        def has_come() -> bool:
            return any(
                said.search(log.read_text()) for folder in self.folders for log in folder.glob("log/workerlog.0")
            )

        wait_until(has_come, LIMIT_S, f"step {step}")

    def found(self, *codes: int) -> set[str]:
        """The last lines of the workers that are followed."""
        results = self.finish()
        assert [result.code for result in results] == list(codes), results
        return {ends_of(result) for result in results}


def ends_of(result: Result) -> str:
    return "\n".join(result.out.splitlines()[-2:])


def undisturbed(folder: Path, num_workers: int) -> str:
    """What the same steps come to on one machine, with one server: their number changes no bit."""
    folder.mkdir()
    job = ["--server_num", 1, "--worker_num", num_workers, SCRIPT, "sync", NUM_STEPS]
    result = fleetrun(*job, cwd=folder, environ=ENVIRON, warm=True)
    assert result.code == 0, result.err
    return ends_of(result)


@pytest.mark.parametrize(
    "machine", [0, pytest.param(1, marks=pytest.mark.exhaustive), pytest.param(2, marks=pytest.mark.exhaustive)]
)
def test_a_job_whose_machine_burns_comes_to_the_same_bits(machine: int, tmp_path: Path) -> None:
    with ExitStack() as stack:
        job = Job(stack, tmp_path, 3)
        job.wait_for_step(FIRE)
        job.burn(machine)
        found = job.found(0, 0)
    assert found == {undisturbed(tmp_path / "undisturbed", 3)}
    kept = [path for one in job.left for path in (job.folders[one] / "kept").rglob("*") if path.is_file()]
    left = [path for path in kept if path.name != "lock"]
    assert not left


@pytest.mark.exhaustive
def test_each_push_counts_once_in_async_mode(tmp_path: Path) -> None:
    with ExitStack() as stack:
        job = Job(stack, tmp_path, 3, "async")
        job.wait_for_step(FIRE)
        job.burn(1)
        found = job.found(0, 0)
    counted = burning_job.BATCH * NUM_STEPS * 3
    assert {one.splitlines()[1] for one in found} == {f"counted {counted} of {counted}"}


@pytest.mark.exhaustive
def test_a_job_on_two_machines_goes_on_from_a_copy_when_the_same_command_is_run_again(tmp_path: Path) -> None:
    with ExitStack() as stack:
        job = Job(stack, tmp_path, 2)
        job.wait_for_step(FIRE)
        job.burn(0)
        (stopped,) = job.finish()
    assert stopped.code == 1
    assert "cannot tell a dead one from a cut cable" in stopped.err
    shutil.rmtree(job.folders[0])  # a new machine
    with ExitStack() as stack:
        found = Job(stack, tmp_path, 2).found(0, 0)
    assert found == {undisturbed(tmp_path / "undisturbed", 2)}


@pytest.mark.exhaustive
def test_the_same_command_goes_on_after_a_fire_and_an_interrupt(tmp_path: Path) -> None:
    with ExitStack() as stack:
        job = Job(stack, tmp_path, 3)
        job.wait_for_step(FIRE // 2)
        job.burn(1)
        job.wait_for_step(2 * FIRE)
        job.jobs[0].send(signal.SIGINT)
        job.found(130, 130)
    shutil.rmtree(job.folders[1])
    with ExitStack() as stack:
        found = Job(stack, tmp_path, 3).found(0, 0, 0)
    assert found == {undisturbed(tmp_path / "undisturbed", 3)}
