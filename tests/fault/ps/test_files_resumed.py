"""A job that is killed in the middle of an epoch of files, and goes on with another number of workers.

Every sample counts once an epoch: those of the steps that the checkpoint has, and those of the run after it.
"""

from __future__ import annotations

import json
import signal
from collections import Counter
from pathlib import Path

import pytest

from support.data import files_job
from support.jobs import RunningJob, fleetrun, python, script
from support.sweeps import sweep

pytestmark = pytest.mark.timeout(300)

PROGRAM = Path(files_job.__file__)


def where(kind: str, num_workers: int) -> list[object]:
    if kind == "collective":
        return ["--nproc_per_node", num_workers]
    return ["--server_num", 2, "--worker_num", num_workers]


def noted(folder: Path, last_step: int | None = None) -> Counter[int]:
    """How often each sample was trained on, in steps up to the last."""
    counts: Counter[int] = Counter()
    for path in folder.glob("?.json"):
        for line in path.read_text().splitlines():
            step, rows = json.loads(line)
            counts.update(rows if last_step is None or step <= last_step else ())
    return counts


KINDS = ["served", "served ahead", "served queue", "collective", "collective queue"]
DEFAULT = [("served ahead", 3), ("served queue", 3), ("collective", 1)]


@pytest.mark.parametrize(
    ("arguments", "after"), sweep(KINDS, [1, 2, 3], sample=lambda kind, after: (kind, after) in DEFAULT)
)
def test_every_sample_counts_once_after_a_kill(arguments: str, after: int, tmp_path: Path) -> None:
    kind, *how = arguments.split()
    files_job.write(tmp_path / "data")
    first, second = tmp_path / "first", tmp_path / "second"
    first.mkdir()
    second.mkdir()
    command = [PROGRAM, kind, tmp_path / "data"]
    with RunningJob([*where(kind, 2), *command, first, "stop", *how], tmp_path, warm=True) as job:
        for worker in range(2):
            job.read(f"ready.{worker}")
        job.send(signal.SIGKILL)
    done = fleetrun(*where(kind, after), *command, second, *how, cwd=tmp_path, warm=True)
    assert done.code == 0, done.err
    before = noted(first, files_job.SAVE_AT)
    assert sum(before.values()) == 2 * files_job.SAVE_AT * files_job.BATCH_SIZE, "in the middle of the first epoch"
    assert sum(noted(first).values()) > sum(before.values()), "some steps were lost with the job"
    assert before + noted(second) == dict.fromkeys(range(files_job.NUM_ROWS), files_job.NUM_EPOCHS)
    if kind == "served":
        counts = json.loads((second / "counts.json").read_text())
        assert counts == [files_job.NUM_EPOCHS] * files_job.NUM_ROWS, "the rows have counted them too"


def test_a_script_that_ends_inside_a_loop(tmp_path: Path) -> None:
    """Its threads are in native code when the interpreter goes."""
    (tmp_path / "clicks.tsv").write_text("1\t2\t3\n" * 200_000)
    program = """
        import fleet

        fleet.init()
        schema = fleet.data.Schema(label="a", numbers=["b"], categories=["c"], columns=["a", "b", "c"])
        batches = iter(fleet.data.files("clicks.tsv", schema, 100, threads=4))
        print(next(batches).size)
    """
    assert python(script(tmp_path, program), cwd=tmp_path, warm=True) == "100\n"
