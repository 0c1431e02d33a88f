"""A results file says which Fleet was measured, also where it is not installed but lies beside the benchmark."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

from fleet._version import __version__

BENCHMARKS = Path(__file__).parents[3] / "benchmarks"


def results(folder: Path, before: str = "") -> dict[str, object]:
    """What `write_results` writes, in an interpreter without site-packages: nothing is installed there."""
    program = f"import sys; sys.path.insert(0, {str(BENCHMARKS)!r}); import harness; from pathlib import Path"
    program += f"; {before or 'pass'}; harness.write_results(Path({str(folder / 'out.json')!r}), [])"
    subprocess.run([sys.executable, "-S", "-c", program], check=True)
    found: dict[str, object] = json.loads((folder / "out.json").read_text())
    return found


def test_the_version_is_that_of_the_source_tree(tmp_path: Path) -> None:
    found = results(tmp_path)["versions"]
    assert isinstance(found, dict)
    assert found["torch-fleet"] == f"{__version__}, from its source tree"
    assert found["torch"] == "not installed"


def test_the_commit_is_there_if_git_is(tmp_path: Path) -> None:
    found = results(tmp_path)["commit"]
    assert found is None or (isinstance(found, str) and re.fullmatch(r"[0-9a-f]{40}\+?", found))
    assert results(tmp_path, "harness.VERSION_FILE; harness.commit.__defaults__ = (Path('/'),)")["commit"] is None
