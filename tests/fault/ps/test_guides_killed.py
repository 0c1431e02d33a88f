"""The programs of README and guides, whose workers are killed: what they print at last is what it would have been."""

from __future__ import annotations

import re
import subprocess
import sys
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import pytest

from support.durable.lives import Workers, has_come
from support.jobs import LIMIT_S
from support.parity.training import served
from support.processes import wait_until
from support.sweeps import sweep

pytestmark = pytest.mark.timeout(300)

ROOT = Path(__file__).parents[3]
GUIDES = {  # how the page says to run it, with less of everything; after how many pushes a worker dies
    "README.md": ([], [90, 410]),
    "docs/fault_tolerance.md": (["40000"], [51, 199]),
    "docs/tutorial.md": (["clicks", "out", "2"], [30, 110]),
}


def program_of(page: str) -> str:
    """The Python that a page says to save as a file, or its first."""
    text = (ROOT / page).read_text()
    found = re.search(r'```python title="train.py"\n(.*?)```', text, re.DOTALL) or re.search(
        r"```python\n(.*?)```", text, re.DOTALL
    )
    assert found is not None
    return found[1]


def run(page: str, folder: Path, deaths: list[int], environ: pytest.MonkeyPatch) -> list[str]:
    """The last line that worker 0 prints."""
    arguments, _ = GUIDES[page]
    folder.mkdir()
    program = folder / "train.py"
    program.write_text(program_of(page))
    if "clicks" in arguments:
        for where, first, samples in (("train", "0", "20000"), ("test", "20000", "2000")):
            make = [
                sys.executable,
                "-m",
                "fleet_tools.synthetic",
                f"clicks/{where}",
                "--first",
                first,
                "--samples",
                samples,
            ]
            subprocess.run(make, cwd=folder, check=True, capture_output=True, timeout=LIMIT_S)
    environ.setenv("FLEET_DURABLE", str(folder / "durable"))
    environ.setenv("FLEET_JOURNAL", "OFF")
    environ.setenv("OMP_NUM_THREADS", "1")
    with served(2) as (endpoints, services), ExitStack() as stack:
        workers = Workers(stack, endpoints, 2, program, arguments)
        for number, moment in enumerate(deaths):
            wait_until(partial(has_come, services, workers, moment), LIMIT_S, f"{moment} pushes")
            assert all(process.poll() is None for process in workers.present), "it ended before its death"
            workers.kill(number % 2)
        said = workers.finish()
    return said[0].strip().split("\n")[-1:]


@pytest.mark.parametrize("page", sweep(GUIDES, sample=lambda page: page == "docs/fault_tolerance.md"))
def test_the_program_of_a_page_prints_the_same_when_its_workers_die(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = run(page, tmp_path / "undisturbed", [], monkeypatch)
    assert expected != [""]
    found = run(page, tmp_path / "disturbed", GUIDES[page][1], monkeypatch)
    assert found == [line.replace("undisturbed", "disturbed") for line in expected]
