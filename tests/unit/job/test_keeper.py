"""One process of a job that is looked after: who lives again, and what it is told."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

import fleet
from fleet.errors import UsageError, VariableError
from fleet.job import keeper
from fleet.job.keeper import main
from support.jobs import clean_environ
from support.processes import wait_until

SAYS = "import os, signal, sys, time; life = os.environ.get('FLEET_LIFE'); open('lives', 'a').write(f'{life} ');"


def environ(tmp_path: Path, role: str = "worker", **more: str) -> dict[str, str]:
    job = fleet.job.Description(num_workers=1, servers="127.0.0.1:1", durable=str(tmp_path), token="secret")
    return {**clean_environ(), **job.variables(role, 0), **more}


def kept(tmp_path: Path, script: str, monkeypatch: pytest.MonkeyPatch, **more: str) -> tuple[int, str]:
    monkeypatch.chdir(tmp_path)
    code = fleet.job.keep([sys.executable, "-c", SAYS + script], environ(tmp_path, **more))
    return code, (tmp_path / "lives").read_text()


def test_a_killed_process_lives_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    dies = "life or os.kill(os.getpid(), signal.SIGKILL)"
    assert kept(tmp_path, dies, monkeypatch) == (0, "None 1 ")
    assert "worker 0 was killed by SIGKILL; started again in its place (life 2)" in caplog.text
    (tmp_path / "lives").unlink()
    dies = "life == '4' or os.kill(os.getpid(), signal.SIGKILL)"
    assert kept(tmp_path, dies, monkeypatch, FLEET_LIFE="2") == (0, "2 3 4 ")  # an engine has counted two before


def test_what_would_meet_the_same_is_not_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert kept(tmp_path, "sys.exit(2)", monkeypatch, role="server") == (2, "None ")


def test_it_passes_signals_on_and_then_its_end_is_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = (
        "signal.signal(signal.SIGUSR1, lambda *_: sys.exit(75)); os.kill(os.getppid(), signal.SIGUSR1); time.sleep(60)"
    )
    before = signal.getsignal(signal.SIGUSR1)
    assert kept(tmp_path, asked, monkeypatch) == (75, "None ")
    assert signal.getsignal(signal.SIGUSR1) is before


def test_a_signal_while_a_new_life_is_being_started_is_passed_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Told(keeper.Kept):
        def __init__(self, command: Sequence[str], environ: Mapping[str, str], note: Path, life: int) -> None:
            super().__init__(command, environ, note, life)
            if life == 1:
                wait_until((tmp_path / "ready").exists, 30.0, "its new life")
                os.kill(os.getpid(), signal.SIGUSR1)

    monkeypatch.setattr(keeper, "Kept", Told)
    dies = (
        "life or os.kill(os.getpid(), signal.SIGKILL); signal.signal(signal.SIGUSR1, lambda *_: sys.exit(75));"
        "open('ready', 'w').close(); time.sleep(3); sys.exit(3)"
    )
    assert kept(tmp_path, dies, monkeypatch) == (75, "None 1 ")


def test_it_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A keeper that is killed takes its process with it."""
    monkeypatch.chdir(tmp_path)
    (pid := os.fork()) or os._exit(_keep_forever(tmp_path))
    wait_until(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text(), 30.0, "its process")
    child = int((tmp_path / "pid").read_text())
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)

    def is_gone() -> bool:
        try:
            return Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
        except FileNotFoundError:
            return True

    wait_until(is_gone, 30.0, "the end of its process")


def _keep_forever(tmp_path: Path) -> int:
    script = "import os, time; open('pid', 'w').write(str(os.getpid())); time.sleep(60)"
    return fleet.job.keep([sys.executable, "-c", script], environ(tmp_path))


def test_mistakes_are_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([]) == 2
    assert "Missing argument 'COMMAND...'" in capsys.readouterr().err
    with pytest.raises(VariableError, match="FLEET_ROLE is not set; only a process of a durable job"):
        fleet.job.keep(["true"], {"FLEET_DURABLE": str(tmp_path)})
    monkeypatch.delenv("FLEET_ROLE", raising=False)
    assert main(["--max_restart", "3", "true", "--max_restart"]) == 2
    assert capsys.readouterr().err.startswith("fleet.job: FLEET_ROLE is not set;")


def test_a_description_tells_each_process_who_it_is() -> None:
    job = fleet.job.Description(4, "file:/shared/where", 2, durable="/shared/kept", token="secret", name="clicks")
    assert "secret" not in repr(job)
    assert job.variables("server", 1, life=2) == {
        "FLEET_ROLE": "server",
        "FLEET_INDEX": "1",
        "FLEET_WORKERS": "4",
        "FLEET_SERVERS": "file:/shared/where",
        "FLEET_SERVER_NUM": "2",
        "FLEET_DURABLE": "/shared/kept",
        "FLEET_JOB_TOKEN": "secret",
        "FLEET_JOB_ID": "clicks",
        "FLEET_LIFE": "2",
    }
    listed = fleet.job.Description(1, ["a:1", "b:1"], worker_endpoints=["c:1"]).variables("worker", 0)
    assert (listed["FLEET_SERVERS"], listed["FLEET_WORKER_ENDPOINTS"]) == ("a:1,b:1", "c:1")


def test_a_process_becomes_one_of_a_job(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(os, "environ", {"RANK": "7", "WORLD_SIZE": "8", "PATH": "/bin", "FLEET_DURABLE": "/old"})
        fleet.job.Description(4, "a:1").become("worker", 3)
        role = fleet.PaddleCloudRoleMaker()
        assert (role.worker_index(), role.worker_num(), "FLEET_DURABLE" in os.environ) == (3, 4, False)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"num_workers": 0}, "num_workers must be a whole number >= 1, got 0"),
        ({"num_workers": 1, "servers": "file:/x"}, "does not say how many there are; give num_servers"),
        ({"num_workers": 1, "durable": "/x"}, "num_servers and durable are of jobs with servers"),
    ],
)
def test_a_description_that_cannot_work_is_refused(arguments: dict[str, object], text: str) -> None:
    with pytest.raises(UsageError, match=text):
        fleet.job.Description(**arguments)  # type: ignore[arg-type]
