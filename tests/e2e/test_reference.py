"""The examples of the reference run, and print what stands behind each print."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from support.jobs import python, script

API = Path(__file__).parents[2] / "docs" / "api"
PAGES = sorted(page.name for page in API.glob("*.md") if page.name != "index.md")
SAID = re.compile(r"^ *(?:print|show|learn)\(.*\)  # (.*)$", flags=re.MULTILINE)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("page", PAGES)
def test_the_examples_print_what_they_say(page: str, tmp_path: Path) -> None:
    program = "\n".join(re.findall(r"```python\n(.*?)```", (API / page).read_text(), flags=re.DOTALL))
    said = python(script(tmp_path, program), cwd=tmp_path, environ={"FLEET_DEVICE": "cpu"}, warm=True)
    expected = [line for found in SAID.findall(program) for line in found.split(" / ")]
    assert said.splitlines() == expected
