"""FLEET_JOB_TOKEN reaches every process of a job, and nobody ever sees it."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from support.jobs import FLEETRUN, Result, RunningJob, fleetrun, script
from support.processes import MARK, marked_processes

pytestmark = pytest.mark.timeout(300)

SERVER_JOB = ("--server_num", 1, "--worker_num", 2)
COLLECTIVE_JOB = ("--nproc_per_node", 2, "--device", "cpu")
# Tells the test the token in a folder that is not searched.
TELL = """
    import os, sys
    is_server = os.environ.get("TRAINING_ROLE") == "PSERVER"
    name = f"server.{os.environ['PADDLE_PSERVER_ID']}" if is_server else f"worker.{os.environ['PADDLE_TRAINER_ID']}"
    os.makedirs("told", exist_ok=True)
    with open(f"told/{name}.part", "w") as file:
        file.write(os.environ["FLEET_JOB_TOKEN"] + "\\n")
    os.rename(f"told/{name}.part", f"told/{name}")
"""
# Servers are told to stop when the workers have ended, so those wait for theirs.
UNTIL_ALL_HAVE_TOLD = """
    import signal, time
    if is_server:
        signal.pause()
    while "PADDLE_PSERVERS_IP_PORT_LIST" in os.environ and not os.path.exists("told/server.0"):
        time.sleep(0.01)
"""


def told(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text().strip() for path in (folder / "told").iterdir()}


def shown(result: Result, folder: Path) -> str:
    """All that a job has printed and written."""
    logs = [path.read_text() for path in (folder / "log").rglob("*") if path.is_file()]
    return "\n".join([result.out, result.err, *logs])


@pytest.mark.parametrize("arguments", [SERVER_JOB, COLLECTIVE_JOB])
def test_all_processes_of_a_job_share_one_and_jobs_do_not(tmp_path: Path, arguments: tuple[object, ...]) -> None:
    train = script(tmp_path, TELL + UNTIL_ALL_HAVE_TOLD)
    seen: list[str] = []
    for number in range(2):
        folder = tmp_path / str(number)
        folder.mkdir()
        assert fleetrun(*arguments, train, cwd=folder).code == 0
        tokens = set(told(folder).values())
        assert len(tokens) == 1
        seen += tokens
    assert seen[0] != seen[1]
    assert all(len(token) > 64 for token in seen)


@pytest.mark.parametrize("given", [None, "open-sesame"])
def test_it_is_never_shown(tmp_path: Path, given: str | None) -> None:
    """In a job that shows everything it has: the banner, logs, the report of a failure."""
    train = script(
        tmp_path,
        TELL + "    import signal, time\n"
        "    if name == 'worker.1':\n"
        "        while not os.path.exists('go'): time.sleep(0.01)\n"
        "        raise ValueError(f'failed {dict(os.environ).keys()}')\n"
        "    signal.pause()\n",
    )
    environ = {} if given is None else {"FLEET_JOB_TOKEN": given}
    with RunningJob([*SERVER_JOB, train], tmp_path, environ) as job:
        tokens = {job.read(f"told/{name}") for name in ("server.0", "worker.0", "worker.1")}
        command_lines = "\n".join(marked_processes(os.environ[MARK]).values())
        (tmp_path / "go").touch()
        result = job.finish()
    assert result.code == 1
    (token,) = tokens
    assert given in (None, token)
    assert "worker 1 failed: exit code 1" in result.err
    assert str(train) in command_lines
    assert token not in command_lines
    assert token not in shown(result, tmp_path)


def test_a_dry_run_does_not_show_it(tmp_path: Path) -> None:
    result = fleetrun(
        *SERVER_JOB, "--dry-run", script(tmp_path, ""), cwd=tmp_path, environ={"FLEET_JOB_TOKEN": "open-sesame"}
    )
    assert result.code == 0, result.err
    assert "worker 1" in result.out
    assert "sesame" not in result.out + result.err
    assert "TOKEN" not in result.out + result.err


def test_one_that_cannot_work_is_refused_and_not_shown(tmp_path: Path) -> None:
    result = fleetrun(*SERVER_JOB, script(tmp_path, ""), cwd=tmp_path, environ={"FLEET_JOB_TOKEN": "s\u00e9same"})
    assert result.code == 2
    assert result.err == "fleetrun: FLEET_JOB_TOKEN must be printable ASCII text, the value it has is not shown\n"
    assert not (tmp_path / "log").exists()


@pytest.mark.parametrize("given", [None, "open-sesame"])
def test_a_job_inside_a_job_has_its_own_unless_the_user_gave_one(tmp_path: Path, given: str | None) -> None:
    inner = script(tmp_path, TELL, "inner.py")
    outer = script(
        tmp_path,
        f"""
        import json, os, subprocess, sys
        print(json.dumps(os.environ["FLEET_JOB_TOKEN"]))
        options = ["--nproc_per_node", "1", "--device", "cpu", "--log_dir", "inner_log"]
        sys.exit(subprocess.run([*{FLEETRUN!r}, *options, {str(inner)!r}], stdout=subprocess.DEVNULL).returncode)
        """,
    )
    environ = {} if given is None else {"FLEET_JOB_TOKEN": given}
    result = fleetrun("--nproc_per_node", 1, "--device", "cpu", outer, cwd=tmp_path, environ=environ)
    assert result.code == 0, result.err
    outer_token, inner_token = json.loads(result.out.splitlines()[0]), told(tmp_path)["worker.0"]
    assert (outer_token == inner_token) == (given is not None)
    assert given in (None, inner_token)
