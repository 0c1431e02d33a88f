"""A mistake of a first day gives one line with the cause and the remedy, soon, and leaves nothing behind."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from fleet.net import Hold
from support.first_days.first_day import BESIDE_SERVERS, COLLECTIVE, SERVERS, STOP_WORKER, WORKERS, Mistake, edited
from support.first_days.first_day_jobs import IN_JOBS
from support.first_days.first_day_mistakes import IN_SCRIPTS
from support.jobs import Result, RunningJob, clean_environ, fleetrun, python, running, script

MISTAKES = IN_SCRIPTS | IN_JOBS
pytestmark = pytest.mark.timeout(120)
SOON_S = 15.0  # what a new user waits for before looking elsewhere; each takes less than one second

# One of each kind of wait, role and message; the rest has the mark `exhaustive`.
SAMPLE = {
    "fleet.init forgotten",
    "init_worker before distributed_optimizer",
    "is_server branch forgotten",
    "a worker ends early without stop_worker",
    "two models",
    "a vocabulary",
    "an optimizer that has made steps",
    "load another model",
    "state_dict of a model with tables",
    "more steps than worker 0",
    "unused parameters",
    "a strategy for a role",
    "options after the script",
    "an exception in worker 1 alone",
}


def rows() -> list[Any]:
    return [
        pytest.param(mistake, id=name, marks=() if name in SAMPLE else pytest.mark.exhaustive)
        for name, mistake in MISTAKES.items()
    ]


def alone(folder: Path) -> Result:
    environ = {**clean_environ(), "OMP_NUM_THREADS": "1"}
    with running([sys.executable, "train.py"], folder, environ, warm=True) as process:
        try:
            out, err = process.communicate(timeout=SOON_S)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"the script did not end within {SOON_S} s") from None
    assert process.returncode is not None
    return Result(process.returncode, out, err, 0.0)


@pytest.mark.parametrize("mistake", rows())
def test_a_mistake_is_named(mistake: Mistake, tmp_path: Path) -> None:
    if mistake.after_a_save:
        script(tmp_path, edited(BESIDE_SERVERS, ((STOP_WORKER, "fleet.save_persistables('saved')\n" + STOP_WORKER),)))
        assert alone(tmp_path).code == 0
    script(tmp_path, edited(mistake.script, mistake.changes))
    before = {path.name for path in tmp_path.iterdir()}
    by_fleetrun = bool(mistake.options) or mistake.arguments != ("train.py",)
    if by_fleetrun:
        result = fleetrun(*mistake.options, *mistake.arguments, cwd=tmp_path, limit_s=SOON_S, warm=True)
    else:
        result = alone(tmp_path)
    lines = [line for line in (result.out + result.err).splitlines() if re.search(mistake.says, line)]
    assert lines, result.out + result.err
    assert (result.code != 0) == mistake.fails
    if mistake.fails and not by_fleetrun:
        *_, last, see = result.err.rstrip().splitlines()
        said = last if see.startswith("see docs/errors.md#") else see
        assert said == lines[-1], "the last line is the one to read, but for where it is explained"
    left = {path.name for path in tmp_path.iterdir()} - before - {"log"}
    assert left == set(mistake.leaves)


@pytest.mark.parametrize(
    ("text", "options"), [(BESIDE_SERVERS, SERVERS), (COLLECTIVE, WORKERS), (BESIDE_SERVERS, ()), (COLLECTIVE, ())]
)
def test_without_a_mistake_nothing_is_said(text: str, options: tuple[str, ...], tmp_path: Path) -> None:
    train = script(tmp_path, text)
    if options:
        result = fleetrun(*options, train, cwd=tmp_path, limit_s=SOON_S, warm=True)
        assert (result.code, result.out) == (0, "")
        assert not re.search("ERROR|WARN|Error|Warning", result.err), result.err
    else:
        assert python(train, cwd=tmp_path, limit_s=SOON_S, warm=True) == ""


def test_a_port_that_is_in_use(tmp_path: Path) -> None:
    train = script(tmp_path, BESIDE_SERVERS)
    with Hold.any_port() as hold:
        port = hold.endpoint.port
        result = fleetrun(
            "--servers", f"127.0.0.1:{port}", "--workers", "127.0.0.1", train, cwd=tmp_path, limit_s=SOON_S, warm=True
        )
    assert result.code != 0
    assert re.search(rf"port {port} of 127\.0\.0\.1 is in use .*; choose another port or end it", result.err), (
        result.err
    )


def test_two_jobs_in_one_log_dir(tmp_path: Path) -> None:
    waits = "import pathlib, time\npathlib.Path('begun').write_text('\\n')\ntime.sleep(60)\n"
    with RunningJob(("--nproc_per_node", 1, script(tmp_path, waits, "first.py")), tmp_path, warm=True) as first:
        first.read("begun")
        second = fleetrun(*WORKERS, script(tmp_path, COLLECTIVE), cwd=tmp_path, limit_s=SOON_S, warm=True)
    assert second.code != 0
    assert re.search(r"log.*another.*--log_dir", second.err), second.err


def test_the_table_is_long_enough() -> None:
    assert len(MISTAKES) >= 30
    assert set(MISTAKES) >= SAMPLE
