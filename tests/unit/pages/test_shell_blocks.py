"""Commands of fleetrun in the guides have options that there are, and modules and files that they name exist."""

from __future__ import annotations

import importlib.util
import re
import shlex
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
DOCS = ROOT / "docs"
PAGES = [
    "tutorial.md",
    "sizing.md",
    *sorted(page.relative_to(DOCS).as_posix() for page in (DOCS / "clusters").glob("*.md")),
    "serving.md",
    "fault_tolerance.md",
    "migrate/ddp.md",
    "migrate/paddle.md",
    "migrate/tensorflow.md",
    "migrate/torchrec.md",
    "paddle.md",
]


def commands(page: str) -> list[str]:
    """The lines of shell blocks, and the commands inside tables and sentences."""
    text = (DOCS / page).read_text()
    blocks = "".join(re.findall(r"```bash\n(.*?)```", text, flags=re.DOTALL)).replace("\\\n", " ")
    inline = re.findall(r"`((?:fleetrun|python -m) [^`]*)`", re.sub(r"```.*?```", "", text, flags=re.DOTALL))
    return [*blocks.splitlines(), *inline]


def known_options() -> set[str]:
    import fleet_tools.commands
    from fleet.launch import cli

    files = [path for module in (cli, fleet_tools.commands) for path in Path(str(module.__file__)).parent.rglob("*.py")]
    return set(re.findall(r"--[\w-]+", "".join(path.read_text() for path in files)))


@pytest.mark.parametrize("page", PAGES)
def test_options_and_modules_of_commands_exist(page: str) -> None:
    known = known_options()
    for command in commands(page):
        for part in re.findall(r"\bfleetrun\b((?:(?!\btrain\.py\b|[;&|`]).)*)", command):
            if "..." not in part:
                words = shlex.split(part.replace('"$', "$").replace('"', " "), comments=True)
                options = {word.partition("=")[0] for word in words if word.startswith("--")}
                assert options <= known, f"{page}: {command} has {sorted(options - known)}"
        for module in re.findall(r"python -m ([\w.]+)", command):
            if module != "venv":
                assert importlib.util.find_spec(module), f"{page}: {command}"


def test_the_check_sees_commands() -> None:
    found = [command for page in PAGES for command in commands(page)]
    assert sum("fleetrun" in command for command in found) > 30
    assert "--server_num" in known_options()
    assert "--no-such-option" not in known_options()
