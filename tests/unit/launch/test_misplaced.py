"""Options of fleetrun behind a module: they are the module's own where its text names them."""

from __future__ import annotations

from pathlib import Path

import pytest

from fleet.errors import UsageError
from fleet.launch.arguments.misplaced import refuse_misplaced
from fleet.launch.arguments.parser import parse

PARSES = "import argparse\nparser = argparse.ArgumentParser()\nparser.add_argument('--workers', type=int)\n"


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("alone.py", "package/train.py", "package/__main__.py"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(PARSES)
    (tmp_path / "package/__init__.py").write_text("raise SystemExit('imported')")
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("module", ["alone", "package.train", "package"])
def test_a_modules_own_options_reach_it(module: str) -> None:
    words = ["-m", module, "--workers", "4"]
    refuse_misplaced(parse, words, 2, "fleetrun", is_module=True)
    with pytest.raises(UsageError, match="--server_num stands after the script"):
        refuse_misplaced(parse, [*words, "--server_num", "2"], 4, "fleetrun", is_module=True)


@pytest.mark.parametrize("module", ["nowhere", "package.nowhere", "alone.nowhere"])
def test_a_module_that_is_not_there_names_nothing(module: str) -> None:
    with pytest.raises(UsageError, match="--workers stands after the script"):
        refuse_misplaced(parse, ["-m", module, "--workers", "4"], 2, "fleetrun", is_module=True)
