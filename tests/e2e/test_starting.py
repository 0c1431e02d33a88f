"""The README's program, started by hand as docs/roles.md shows it, and on two machines."""

from __future__ import annotations

import re
import sys
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path

import pytest

from fleet.net import Hold
from support.hosts import two_hosts, why_not
from support.jobs import LIMIT_S, Process, RunningJob, clean_environ, running, script

pytestmark = pytest.mark.timeout(300)
README = Path(__file__).parents[2] / "README.md"
NO_HOSTS = why_not()
LEARNED = r"mean loss over the workers: 0\.0[0-9]+, saved in "


@pytest.fixture
def program(tmp_path: Path) -> Path:
    found = re.search(r"```python\n(.*?)```", README.read_text(), flags=re.DOTALL)
    assert found is not None
    return script(tmp_path, found[1])


def started(*command: object, cwd: Path, environ: dict[str, str]) -> AbstractContextManager[Process]:
    """A process that is ended, whatever the test does."""
    variables = {**clean_environ(), "OMP_NUM_THREADS": "1", **environ}
    return running([sys.executable, *command], cwd, variables, warm=True)


def test_by_hand(tmp_path: Path, program: Path) -> None:
    token = {"FLEET_JOB_TOKEN": "a word that all processes share"}
    with ExitStack() as stack:
        endpoints = [str(stack.enter_context(Hold.any_port()).endpoint) for _ in range(2)]
        held = token | {"FLEET_JOB_ID": "test"}  # the name of a job says that the port is held, here
        servers = [
            stack.enter_context(started("-m", "fleet.ps.server", "--endpoint", endpoint, cwd=tmp_path, environ=held))
            for endpoint in endpoints
        ]
        meeting = [stack.enter_context(Hold.any_port()) for _ in range(2)]
        environ = token | {
            "TRAINING_ROLE": "TRAINER",
            "PADDLE_TRAINERS_NUM": "2",
            "PADDLE_PSERVERS_IP_PORT_LIST": ",".join(endpoints),
            "PADDLE_TRAINER_ENDPOINTS": ",".join(str(hold.endpoint) for hold in meeting),
        }
        workers = [
            stack.enter_context(started(program, cwd=tmp_path, environ=environ | {"PADDLE_TRAINER_ID": str(index)}))
            for index in range(2)
        ]
        outputs = ["".join(worker.communicate(timeout=LIMIT_S)) for worker in workers]
        assert [worker.returncode for worker in workers] == [0, 0], outputs
        assert re.search(LEARNED, outputs[0]), outputs[0]
        assert [server.wait(timeout=LIMIT_S) for server in servers] == [0, 0]  # by themselves: every worker has left


@pytest.mark.exhaustive
@pytest.mark.netns
@pytest.mark.skipif(NO_HOSTS is not None, reason=NO_HOSTS or "")
def test_on_two_machines(tmp_path: Path, program: Path) -> None:
    with two_hosts() as hosts, ExitStack() as stack:
        servers = ",".join(f"{host.address}:6170" for host in hosts)
        workers = ",".join(host.address for host in hosts)
        jobs = [
            stack.enter_context(
                RunningJob(
                    ("--servers", servers, "--workers", workers, "--log_dir", f"log{number}", program),
                    tmp_path,  # a folder that both machines see
                    prefix=host.prefix,
                )
            )
            for number, host in enumerate(hosts)
        ]
        results = [job.finish() for job in jobs]
    assert [result.code for result in results] == [0, 0], results
    assert re.search(LEARNED, results[0].out), results[0]


def test_a_script_that_spawned_processes_run_again_says_so(tmp_path: Path) -> None:
    """As those of `DataLoader(..., multiprocessing_context="spawn")` do where nothing stands behind `if __name__`."""
    spawns = "import multiprocessing as mp\n\nimport fleet\n\nfleet.init()\nmp.get_context('spawn').Process().start()\n"
    with running([sys.executable, script(tmp_path, spawns)], tmp_path, clean_environ(), warm=False) as process:
        said = process.communicate(timeout=LIMIT_S)[1]
    assert "fleet.init() was called again in a process that multiprocessing starts" in said
    assert "put what the script does behind if __name__ == '__main__':" in said
