"""The CTR example: it learns, in one process and in several, and goes on where it stopped."""

from __future__ import annotations

import difflib
import re
from pathlib import Path

import pytest

from support.jobs import fleetrun, python

pytestmark = pytest.mark.timeout(300)
ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "examples" / "ctr"


def alone(script: str, *arguments: object, cwd: Path) -> str:
    """Run a script of the example in one process."""
    return python(FOLDER / script, *arguments, cwd=cwd, warm=True)


def together(*arguments: object, cwd: Path) -> str:
    """Run train.py on two servers and two workers."""
    result = fleetrun("--server_num", 2, "--worker_num", 2, FOLDER / "train.py", *arguments, cwd=cwd, warm=True)
    assert result.code == 0, result.err
    assert "warning:" not in result.err
    return result.out


def aucs(output: str) -> tuple[float, float]:
    found = re.search(r"AUC on unseen data +([0-9.]+) before, ([0-9.]+) after", output)
    assert found is not None, output
    return float(found[1]), float(found[2])


def test_it_learns_in_one_process_as_plain_pytorch_does_and_goes_on_in_four(tmp_path: Path) -> None:
    output = alone("train.py", "--batches", 15, "--save", "saved", cwd=tmp_path)
    before, after = aucs(output)
    assert before == pytest.approx(0.5, abs=0.03)
    assert after > 0.7
    assert "training  step 15/15" in output
    assert re.search(r"tables +[0-9,]+ rows, [0-9]+ MB in this process", output)
    assert (tmp_path / "saved" / "manifest.json").exists()
    assert aucs(alone("single.py", "--batches", 15, cwd=tmp_path))[1] == pytest.approx(after, abs=0.02)

    output = together("--batches", 10, "--load", "saved", "--save", "saved", cwd=tmp_path)
    assert aucs(output)[0] == pytest.approx(after, abs=1e-4)  # the same rows, now on two servers
    assert aucs(output)[1] > after
    assert re.search(r"speed +[0-9,]+ samples/s over 2 worker\(s\)", output)
    assert re.search(rf"checkpoint +{tmp_path}/saved", output)


@pytest.mark.exhaustive  # tests/e2e/test_recommenders.py and tests/parity/test_auc.py have these modes too
@pytest.mark.parametrize("mode", ["async", "half_async", "geo"])
def test_it_learns_in_every_mode(tmp_path: Path, mode: str) -> None:
    learned = aucs(together("--batches", 30, "--mode", mode, "--save", "saved", cwd=tmp_path))
    assert learned[1] > 0.65
    if mode == "geo":  # what workers hold besides is not saved: going on begins with what servers have
        went_on = aucs(together("--batches", 5, "--mode", mode, "--load", "saved", "--save", "again", cwd=tmp_path))
        assert went_on[0] == pytest.approx(learned[1], abs=0.02)


def core(script: str) -> list[str]:
    """The model and the loop, without blank lines."""
    text = (FOLDER / script).read_text()
    begin, end = text.index("from watch"), text.index("\n\n\ndef ", text.index("def main"))
    return [line for line in text[begin:end].splitlines() if line.strip()]


def test_ten_lines_make_it_distributed_and_the_page_shows_them() -> None:
    lines = list(difflib.unified_diff(core("single.py"), core("train.py"), n=1, lineterm=""))[2:]
    assert len([line for line in lines if line.startswith("+")]) == 10
    shown = "\n".join("@@" if line.startswith("@@") else line for line in lines[1:])
    found = re.search(r"```diff\n(.*?)\n```", (FOLDER.parent / "README.md").read_text(), flags=re.DOTALL)
    assert found is not None
    assert found[1] == shown, f"put this into examples/README.md:\n{shown}"
