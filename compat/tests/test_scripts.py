"""Scripts as users of PaddlePaddle have them, each run as its kind is run; nothing in them names Fleet."""

from __future__ import annotations

import json
import re
import runpy
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fleet_programs as static
from fleet.net import Hold
from fleet_paddle.dataset import original_files
from fleet_paddle.imperative import state
from support.jobs import Process, clean_environ, running

SCRIPTS = Path(__file__).parent / "scripts"
LIMIT_S = 180.0

BESIDE = Path(sys.executable).with_name("mpirun")
MPIRUN = str(BESIDE) if BESIDE.exists() else shutil.which("mpirun")


@pytest.fixture
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A process of its own, as far as programs are concerned."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FLEET_DEVICE", "cpu")
    monkeypatch.setenv("FLEET_DATA_HOME", str(tmp_path))
    with (
        state.guard(),
        static.program_guard(static.Program(), static.Program()),
        static.scope_guard(static.Scope()),
        static.unique_name.guard(),
    ):
        yield


def losses(text: str, pattern: str) -> list[float]:
    """Numbers that were printed; they must fall."""
    found = [float(number) for number in re.findall(pattern, text)]
    assert len(found) == 2, text
    assert found[1] < found[0], text
    return found


@contextmanager
def started(
    arguments: Sequence[object], folder: Path, environ: Mapping[str, str] | None = None, *, warm: bool = False
) -> Iterator[Process]:
    """A process that does not outlive the block, whatever happens there."""
    own = {"FLEET_DEVICE": "cpu", "OMP_NUM_THREADS": "1", "TMPDIR": str(folder)}
    with running(arguments, folder, {**clean_environ(), **own, **(environ or {})}, warm=warm) as process:
        yield process


def finished(process: Process) -> str:
    out, err = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 0, out + err
    return out + err


@pytest.mark.usefixtures("alone")
@pytest.mark.parametrize(
    ("name", "pattern"),
    [
        ("house_prices", ""),
        ("two_classes", r"loss ([0-9.]+)"),
        ("clicks_by_reader", r"loss ([0-9.]+)"),
        ("layers_alone", r"loss \[([0-9.]+)\]"),
        ("shapes_by_hand", r"loss ([0-9.]+)"),
        ("copied_words", r"loss ([0-9.]+)"),
    ],
)
def test_a_script_of_one_process(
    name: str, pattern: str, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(original_files, "_said", set())  # what other tests have been told
    runpy.run_path(str(SCRIPTS / f"{name}.py"), run_name="__main__")
    said = capfd.readouterr()
    if pattern:
        losses(said.out, pattern)
    else:
        assert said.err.count("is synthetic") == 1
        assert any(Path("prices.model").iterdir())


@pytest.mark.timeout(LIMIT_S + 60)
@pytest.mark.usefixtures("alone")
def test_two_workers_and_two_servers_are_one_process_with_the_whole_batch(tmp_path: Path) -> None:
    command = ["-m", "paddle.distributed.launch_ps", "--worker_num", 2, "--server_num", 2, SCRIPTS / "four_models.py"]
    with started([sys.executable, *command, tmp_path], tmp_path, warm=True) as job:
        script: Any = runpy.run_path(str(SCRIPTS / "four_models.py"))
        named, total = script["build"]()
        static.optimizer.SGD(0.05).minimize(total)
        # Rows that only servers have are in this process here.
        main, startup = static.default_main_program(), static.default_startup_program()
        expected = script["train"](static.Executor(), main, startup, named, slice(None))
        text = finished(job)
    assert (tmp_path / "logs" / "serverlog.1").exists(), text
    halves = [json.loads((tmp_path / f"losses.{worker}").read_text()) for worker in (0, 1)]
    np.testing.assert_allclose(np.mean(halves, axis=0), expected, rtol=0, atol=1e-5)
    assert (np.array(expected)[-1] < np.array(expected)[0]).all()


@pytest.mark.timeout(LIMIT_S + 60)
def test_workers_without_servers(tmp_path: Path) -> None:
    command = ["-m", "paddle.distributed.launch", "--selected_gpus=0,1", SCRIPTS / "workers_alone.py"]
    with started([sys.executable, *command], tmp_path, warm=True) as job:
        text = finished(job)
    assert "Distributed Envs" in text
    for worker in (0, 1):
        log = (tmp_path / "mylog" / f"workerlog.{worker}").read_text()
        losses(log, r"program step \d+ loss ([0-9.]+)")
        losses(log, r"layer step \d+ loss ([0-9.]+)")


@pytest.mark.mpi
@pytest.mark.skipif(MPIRUN is None, reason="mpirun is neither beside python nor on PATH")
@pytest.mark.timeout(LIMIT_S + 60)
def test_a_server_and_a_worker_of_mpi(tmp_path: Path) -> None:
    (tmp_path / "t").mkdir()  # a short path: Open MPI keeps sockets there
    environ = dict.fromkeys(("OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "PRTE_ALLOW_RUN_AS_ROOT"), "1")
    environ["TMPDIR"] = str(tmp_path / "t")
    command = [MPIRUN, "--oversubscribe", "-np", 2, sys.executable, SCRIPTS / "mpi_pair.py"]
    with started(command, tmp_path, environ) as job:
        text = finished(job)
    assert "Server listening on" in text
    losses(text, r"step \d+ loss ([0-9.]+)")


@pytest.mark.timeout(LIMIT_S + 60)
@pytest.mark.parametrize("servers", [1, 0])
def test_processes_that_were_started_by_hand(tmp_path: Path, servers: int) -> None:
    command = [sys.executable, SCRIPTS / "cut_by_hand.py"]
    with ExitStack() as stack:
        endpoints = [str(stack.enter_context(Hold.any_port()).endpoint) for _ in range(servers or 2)]
        common = {"ENDPOINTS": ",".join(endpoints), "WORKERS": "2"}
        # The name of a job says that the port is held, here.
        roles = [{"ROLE": "SERVER", "OWN": endpoint, "FLEET_JOB_ID": "test"} for endpoint in endpoints[:servers]]
        roles += [{"ROLE": "WORKER" if servers else "ALONE", "INDEX": str(index)} for index in (0, 1)]
        running = [stack.enter_context(started(command, tmp_path, common | role, warm=True)) for role in roles]
        texts = [finished(process) for process in running]
    for index, text in enumerate(texts[servers:]):
        losses(text, rf"worker {index} step \d+ loss ([0-9.]+)")
