"""`fleetrun --chaos` in real jobs: what it does, what it reports, what it refuses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from chaos.runs import ENVIRON, SCRIPT
from chaos.state import digest_of
from support.jobs import Result, fleetrun, script

TWO_AND_TWO = ("--server_num", 2, "--worker_num", 2)


def report_of(folder: Path, log: str = "log") -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / log / "chaos.json").read_text())
    return found


def train(folder: Path, name: str, *options: object) -> Result:
    size = ("--samples", 640, "--epochs", 2)
    arguments = (*TWO_AND_TWO, "--log_dir", f"log-{name}", *options, SCRIPT, *size, "--save", folder / name)
    return fleetrun(*arguments, cwd=folder, environ=ENVIRON, warm=True)


def test_lost_and_repeated_calls_change_nothing(tmp_path: Path) -> None:
    assert train(tmp_path, "undisturbed").code == 0
    chaos = "drop 4% rpc; repeat 4% rpc; delay 2% 20ms; stop server 300ms at 300ms"
    result = train(tmp_path, "disturbed", "--chaos", chaos, "--seed", 5)
    assert result.code == 0, result.err
    assert digest_of(tmp_path / "disturbed") == digest_of(tmp_path / "undisturbed")
    found = report_of(tmp_path, "log-disturbed")
    assert (found["chaos"], found["seed"], found["exit_code"]) == (chaos, 5, 0)
    assert all(found["counts"][what] > 5 for what in ("drop", "repeat"))
    assert found["counts"]["stop server"] == 1
    (stopped,) = found["recoveries"]
    assert stopped["back_s"] == 0.3 < stopped["step_s"]
    assert [(one["name"], one["holds"], one["text"]) for one in found["invariants"]] == [
        ("the job ended in order", True, "exit code 0"),
        ("acknowledged pushes = applied pushes, server 0", True, "80 acknowledged, 80 applied"),
        ("acknowledged pushes = applied pushes, server 1", True, "80 acknowledged, 80 applied"),
    ]
    assert "acknowledged pushes = applied pushes, server 1   holds" in result.err
    assert sorted(path.name for path in (tmp_path / "log-disturbed").iterdir()) == [
        "chaos.json",
        "observe",
        "serverlog.0",
        "serverlog.1",
        "workerlog.0",
        "workerlog.1",
    ]


def test_a_kill_ends_a_job_that_is_not_durable(tmp_path: Path) -> None:
    result = train(tmp_path, "killed", "--chaos", "kill worker at 100ms", "--seed", 1)
    assert result.code == 137
    assert "warning: chaos without --durable: the job ends by the first kill" in result.err
    found = report_of(tmp_path, "log-killed")
    (event,) = found["events"]
    (struck,) = found["recoveries"]
    assert (event["what"], event["process"]) == ("kill worker", struck["process"])
    assert f"fleetrun: error: {struck['process']} failed: signal SIGKILL (9), exit code 137" in result.err
    broken = {one["name"]: one["text"] for one in found["invariants"] if one["holds"] is False}
    assert broken == {
        "the job ended in order": "exit code 137",
        "every process that was killed came back": f"0 of 1; not {struck['process']} (kill at {struck['at_s']:.1f} s)",
    }


@pytest.mark.exhaustive
def test_the_same_seed_strikes_the_same_processes(tmp_path: Path) -> None:
    sleep = script(tmp_path, "import time; time.sleep(1)")
    chaos = "stop worker 10ms every 50ms; stop both 10ms at 300ms"

    def struck(seed: int) -> list[tuple[str, str]]:
        result = fleetrun(
            "--server_num", 3, "--worker_num", 3, "--chaos", chaos, "--seed", seed, sleep, cwd=tmp_path, warm=True
        )
        assert result.code == 0, result.err
        return [(event["what"], event["process"]) for event in report_of(tmp_path)["events"]]

    first, again, other = struck(1), struck(1), struck(2)
    num = min(map(len, (first, again, other)))
    assert num > 10
    assert first[:num] == again[:num] != other[:num]
    assert {what for what, _ in first} == {"stop worker", "stop server"}


def test_a_report_is_shown_quietly_only_if_something_is_broken(tmp_path: Path) -> None:
    wait = script(tmp_path, "import time; time.sleep(0.3)")
    result = fleetrun(
        "--quiet", "--nproc_per_node", 1, "--chaos", "stop worker 50ms at 50ms", wait, cwd=tmp_path, warm=True
    )
    assert (result.code, "invariant" in result.err) == (0, False)
    assert report_of(tmp_path)["counts"] == {"stop worker": 1}
    result = fleetrun("--quiet", "--nproc_per_node", 1, "--chaos", "kill worker at 50ms", wait, cwd=tmp_path, warm=True)
    assert (result.code, "invariant" in result.err) == (137, True)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (["--chaos", "kil server"], "--chaos: in 'kil server' 'kil' stands where kill or stop"),
        (["--chaos", "kill server"], "--chaos: 'kill server' ends where every or at was expected"),
        (["--server_num", "1", "--chaos", "disk-full at 1s"], "--chaos: disk-full at 1s for 5s: there is no journal"),
        (["--nproc_per_node", "1", "--chaos", "kill both at 1s"], "--chaos: kill both at 1s: a collective job has no"),
        (["--nproc_per_node", "1", "--chaos", "drop 1% rpc"], "--chaos: drop 1% rpc: a collective job has no servers"),
        (["--server_num", "1", "--chaos", "kill copy at 1s"], "--chaos: kill copy at 1s: servers have no copies"),
        (["--seed", "3"], "--seed 3 goes with --chaos; leave it out, or write it after the script to pass it on"),
        (["--chaos", "kill worker at 1s", "--seed", "x"], "--seed must be a whole number >= 0, got x"),
    ],
)
def test_mistakes_are_one_line(tmp_path: Path, options: list[str], text: str) -> None:
    result = fleetrun(*options, script(tmp_path, "print('started')"), cwd=tmp_path)
    assert (result.code, result.out) == (2, "")
    assert result.err.startswith(f"fleetrun: {text}")
    assert result.err.count("\n") == 1


def test_a_seed_behind_the_script_is_the_scripts(tmp_path: Path) -> None:
    show = script(tmp_path, "import sys; print(sys.argv[1:])")
    result = fleetrun("--nproc_per_node", 1, "--device", "cpu", show, "--seed", 7, cwd=tmp_path)
    assert (result.code, result.out) == (0, "['--seed', '7']\n")
