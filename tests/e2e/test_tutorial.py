"""docs/tutorial.md and docs/fault_tolerance.md as a reader would follow them, on less data."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from support.jobs import fleetrun, python

pytestmark = pytest.mark.timeout(240)
DOCS = Path(__file__).parents[2] / "docs"
JOB = ("--server_num", 2, "--worker_num", 2)


def save_scripts(page: str, folder: Path) -> list[str]:
    """Write the page's scripts, each under the name that its title gives it."""
    found = re.findall(r'```python title="(.*?)"\n(.*?)```', (DOCS / page).read_text(), flags=re.DOTALL)
    for name, text in found:
        (folder / name).write_text(text)
    return [name for name, _ in found]


def auc_of(said: str) -> str:
    found = re.search(r"epoch 0: AUC (0\.\d+) on unseen clicks", said)
    assert found, said
    return found[1]


def test_the_tutorial(tmp_path: Path) -> None:
    assert save_scripts("tutorial.md", tmp_path) == ["train.py", "serve.py", "columns.py"]
    for folder, first, samples in (("train", 0, 4000), ("test", 4000, 1000)):
        python(
            "-m", "fleet_tools.synthetic", f"clicks/{folder}", "--first", first, "--samples", samples, "--files", 2,
            cwd=tmp_path, warm=True,
        )  # fmt: skip
    assert float(auc_of(python("train.py", "clicks", "first", cwd=tmp_path, warm=True))) > 0.5
    job = fleetrun(*JOB, "train.py", "clicks", "second", cwd=tmp_path, warm=True)
    assert job.code == 0, job.err
    faults = ("--durable", "kept", "--chaos", "kill server at 1s")
    killed = fleetrun(*JOB, *faults, "train.py", "clicks", "third", cwd=tmp_path, warm=True)
    assert killed.code == 0, killed.err
    assert auc_of(killed.out) == auc_of(job.out)
    again = fleetrun(*JOB, "train.py", "clicks", "second", 2, cwd=tmp_path, warm=True)
    assert again.code == 0, again.err
    assert "going on from" in again.out + again.err
    said = python("serve.py", "second/model", "clicks/test/clicks-00000-of-00002.tsv", cwd=tmp_path, warm=True)
    assert len(re.findall(r"clicked: [01], predicted: 0\.\d{3}\n", said)) == 3
    assert python("columns.py", cwd=tmp_path, warm=True) == "[2, 1] [2, 2] ['tags']\n"


def test_a_served_line_is_what_the_reader_of_files_makes_of_it(tmp_path: Path) -> None:
    save_scripts("tutorial.md", tmp_path)
    (tmp_path / "compare.py").write_text(
        (tmp_path / "serve.py").read_text().partition("folder, path")[0]
        + "fleet.init()\n"
        + "fleet.data.synthetic.Clicks(20).write('clicks', files=1, enabled=False)\n"
        + "lines = open('clicks/clicks-00000-of-00001.tsv').readlines()\n"
        + "(read,) = fleet.data.files('clicks', fleet.data.criteo(), 20)\n"
        + "own = [batch_of(line) for line in lines]\n"
        + "print(torch.equal(torch.cat([one.ids for one in own]), read.ids))\n"
        + "print(torch.allclose(torch.cat([one.dense for one in own]), read.dense))\n"
    )
    assert python("compare.py", cwd=tmp_path, warm=True) == "True\nTrue\n"


def test_killed_or_not_the_loss_is_the_same(tmp_path: Path) -> None:
    assert save_scripts("fault_tolerance.md", tmp_path) == ["train.py"]
    whole = fleetrun(*JOB, "train.py", 20_000, cwd=tmp_path, warm=True)
    assert whole.code == 0, whole.err
    faults = ("--durable", "kept", "--chaos", "kill server at 800ms; kill worker at 1200ms")
    killed = fleetrun(*JOB, *faults, "train.py", 20_000, cwd=tmp_path, warm=True)
    assert killed.code == 0, killed.err
    # A worker that is killed after it has said its loss says it again.
    assert set(re.findall(r"loss .*", killed.out)) == set(re.findall(r"loss .*", whole.out)) != set()
