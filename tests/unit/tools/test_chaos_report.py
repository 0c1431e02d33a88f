"""What the report of a job under chaos finds in the notes of its processes."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fleet.jobfiles.process_files import ProcessFiles
from fleet.launch.arguments.options import Options
from fleet.launch.planning.layout import JobLayout
from fleet.launch.planning.machine import Machine
from fleet.launch.planning.make import make_plan
from fleet.launch.planning.plan import LaunchPlan
from fleet.net import Endpoint
from fleet_tools.chaos import notes as chaos_notes
from fleet_tools.chaos.agent import Agent, Blow, Life, with_chaos
from fleet_tools.chaos.report import find, tell, text_of
from fleet_tools.chaos.spec import Chaos

BEGAN = 1_000_000.0


@pytest.fixture
def plan(tmp_path: Path) -> LaunchPlan:
    (tmp_path / "log").mkdir()
    ports = tuple(Endpoint("127.0.0.1", port) for port in range(6170, 6174))
    options = Options("train.py", server_num=2, worker_num=2, log_dir=str(tmp_path / "log"))
    return make_plan(options, Machine(), JobLayout(ports[:2], ports[2:], (0, 1), (0, 1), None), {})


class Told:
    """Notes as the processes of a job leave them."""

    def __init__(self, plan: LaunchPlan, monkeypatch: pytest.MonkeyPatch) -> None:
        self.plan = plan
        self._patch = monkeypatch
        monkeypatch.setenv("FLEET_CHAOS", "drop 1% rpc")
        chaos = Chaos.parse("kill server at 1s; drop 1% rpc", "--chaos")
        self.agent = Agent(chaos, 3, plan, BEGAN)

    def by(self, name: str, pid: int, at_s: float) -> None:
        """What is noted next, is noted by this process then."""
        process = next(one for one in self.plan.processes if one.name == name)
        self._patch.setenv("FLEET_NOTE_FILE", str(ProcessFiles.beside(process.log_path).note))
        self._patch.setattr("fleet_tools.chaos.notes.time.time", lambda: BEGAN + at_s)
        self._patch.setattr("fleet_tools.chaos.notes.os.getpid", lambda: pid)

    def acks(self, worker: int, server: int, *sequences: int, at_s: float = 0.5) -> None:
        self.by(f"worker {worker}", 100 + worker, at_s)
        for sequence in sequences:
            chaos_notes.note_ack(server, 7, sequence)

    def pushes(self, worker: int, server: int, count: int) -> None:
        self.by(f"worker {worker}", 100 + worker, 9.0)
        chaos_notes.note("pushes", server=server, count=count)

    def kill(self, name: str, at_s: float, pid: int, next_pid: int | None = None) -> None:
        self.agent.blows.append(Blow("kill", name, BEGAN + at_s, pid))
        if next_pid is not None:
            self.agent.lives.append(Life(name, next_pid, BEGAN + at_s + 0.1))


@pytest.fixture
def told(plan: LaunchPlan, monkeypatch: pytest.MonkeyPatch) -> Told:
    return Told(plan, monkeypatch)


def verdicts(told: Told, code: int = 0) -> dict[str, Any]:
    return {one.name: (one.holds, one.text) for one in find(told.agent, told.plan, code).invariants}


def test_acknowledged_pushes_are_counted_once_against_applied_ones(told: Told) -> None:
    told.acks(0, 0, 1, 2, 3, 3)
    told.acks(1, 0, 1, 2)
    told.acks(0, 1, 1, 2)
    told.pushes(0, 0, 4)  # worker 1 had not come to its end then
    told.pushes(1, 0, 5)
    told.pushes(1, 1, 3)
    found = verdicts(told)
    name = "acknowledged pushes = applied pushes, server"
    assert found[f"{name} 0"] == (True, "5 acknowledged, 5 applied")
    assert found[f"{name} 1"] == (False, "2 acknowledged, 3 applied")


def test_a_broken_invariant_is_exit_code_1(
    told: Told, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    told.acks(0, 0, 1)
    told.pushes(0, 0, 2)
    assert tell(told.agent, told.plan, 0, is_quiet=True) == 1
    said = capfd.readouterr().err
    assert "acknowledged pushes = applied pushes, server 0   BROKEN   1 acknowledged, 2 applied" in said
    assert "server 1   ?        not checked: no worker got to its end" in said
    assert "chaos: acknowledged pushes = applied pushes, server 0: 1 acknowledged, 2 applied" in caplog.text
    folder = told.plan.processes[0].log_path.parent
    assert json.loads((folder / "chaos.json").read_text())["exit_code"] == 0
    assert [path.name for path in folder.iterdir()] == ["chaos.json"]


def test_recoveries_are_measured_from_the_blow(told: Told) -> None:
    told.kill("server 1", 2.0, 11, 12)
    told.by("server 1", 12, 2.7)
    chaos_notes.note("serving")
    told.acks(0, 1, 1, at_s=2.5)  # of its former life
    told.acks(0, 1, 2, at_s=3.0)
    told.kill("worker 0", 4.0, 21, 22)
    for server, at_s in ((0, 4.5), (1, 4.75)):
        told.by("worker 0", 22, at_s)
        chaos_notes.note("declared", server=server)
    told.acks(1, 0, 9, at_s=5.0)
    told.acks(0, 0, 9, at_s=6.0)
    first, second = find(told.agent, told.plan, 0).recoveries
    assert (first.process, first.at_s) == ("server 1", 2.0)
    assert [first.restarted_s, first.back_s, first.step_s] == pytest.approx([0.1, 0.7, 1.0])
    assert second.process == "worker 0"
    assert [second.back_s, second.step_s] == pytest.approx([0.75, 2.0])
    assert verdicts(told)["every process that was killed came back"] == (True, "2 of 2")


def test_a_process_that_did_not_come_back_is_named(told: Told) -> None:
    told.kill("server 0", 1.0, 11, 12)  # started again, and never served
    told.kill("worker 1", 2.0, 21, 22)
    told.kill("worker 1", 2.5, 22, 23)
    for server in (0, 1):
        told.by("worker 1", 23, 3.0)
        chaos_notes.note("declared", server=server)
    assert [one.note for one in find(told.agent, told.plan, 1).recoveries] == ["", "struck again before", ""]
    found = verdicts(told, code=1)
    assert found["every process that was killed came back"] == (False, "2 of 3; not server 0 (kill at 1.0 s)")
    assert found["the job ended in order"] == (False, "exit code 1")


def test_many_recoveries_are_put_together(told: Told) -> None:
    for number in range(20):
        told.kill("server 0", number, 100 + number, 101 + number)
        told.by("server 0", 101 + number, number + 0.25)
        chaos_notes.note("serving")
    text = text_of(find(told.agent, told.plan, 0), Path("log/chaos.json"))
    (line,) = [line for line in text.split("\n") if line.startswith("server 0")]
    assert line.split() == ["server", "0", "kill", "20", "0.25", "0.25"]
    assert all(len(line) <= 110 for line in text.split("\n"))


def test_a_copy_that_is_killed_is_replaced_by_another(told: Told) -> None:
    copy = replace(told.plan.processes[1], role="copy", index=0)
    told.plan = replace(told.plan, processes=(*told.plan.processes, copy))
    told.kill("copy of server 0", 1.0, 7, 8)
    assert verdicts(told)["every process that was killed came back"] == (True, "1 of 1")
    plan = with_chaos(told.plan, Chaos.parse("torn-write at 1s", "--chaos"), 0, BEGAN)
    assert not plan.processes[-1].variables["FLEET_CHAOS"]  # it tears nothing: one of the servers does


def test_one_server_is_chosen_for_torn_writes(plan: LaunchPlan) -> None:
    chaos = Chaos.parse("torn-write at 1s; drop 1% rpc", "--chaos")

    def chosen(seed: int) -> list[str]:
        servers = [one for one in with_chaos(plan, chaos, seed, BEGAN).processes if one.role == "server"]
        assert all("drop 1% rpc" in one.variables["FLEET_CHAOS"] for one in servers)
        return [one.name for one in servers if "torn-write" in one.variables["FLEET_CHAOS"]]

    assert {tuple(chosen(seed)) for seed in range(20)} == {("server 0",), ("server 1",)}
