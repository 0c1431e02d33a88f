"""What the workflows and the commit hooks call is there: make targets in the Makefile, tools in the requirements."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE))
PINNED = {
    name
    for path in (ROOT / "requirements").glob("*.txt")
    for name in re.findall(r"^([a-z0-9-]+)==", path.read_text(), flags=re.MULTILINE)
}


def called(path: Path) -> list[str]:
    """The make targets that a workflow runs, in its order."""
    return re.findall(r"\brun: make ([a-z-]+)", path.read_text())


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_every_target_of_a_workflow_is_in_the_makefile(path: Path) -> None:
    assert set(called(path)) <= TARGETS


def test_the_workflows_run_what_lands_a_change() -> None:
    targets = {target for path in WORKFLOWS for target in called(path)}
    assert {"check", "test", "sanitize"} <= targets


def test_every_target_that_a_page_names_is_in_the_makefile() -> None:
    pages = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob(".github/*.md"), *ROOT.glob("examples/*.md")]
    text = "\n".join(page.read_text() for page in pages)
    named = set(re.findall(r"^make ([a-z-]+)|`(?:[A-Z_]+=\S+ )?make ([a-z-]+)", text, flags=re.MULTILINE))
    missing = {first or second for first, second in named} - TARGETS
    assert missing == set()


def test_every_tool_of_the_commit_hooks_is_pinned() -> None:
    tools = set(re.findall(r"entry: \.venv/bin/([a-z-]+)", (ROOT / ".pre-commit-config.yaml").read_text()))
    assert tools == {"ruff", "clang-format"}
    assert tools <= PINNED


def test_wheels_are_built_for_every_python_that_the_package_names() -> None:
    text = (ROOT / "pyproject.toml").read_text()
    named = re.findall(r'"Programming Language :: Python :: 3\.(\d+)"', text)
    assert named
    assert re.findall(r'"cp3(\d+)-manylinux_\*"', text) == named
    compat = (ROOT / "compat" / "pyproject.toml").read_text()
    assert re.findall(r'"Programming Language :: Python :: 3\.(\d+)"', compat) == named


def test_pages_install_the_torch_that_make_installs() -> None:
    pinned = re.search(r"^torch==\S+", (ROOT / "requirements" / "runtime.txt").read_text(), flags=re.MULTILINE)
    index = re.search(r"^TORCH_INDEX \?= (\S+)", (ROOT / "Makefile").read_text(), flags=re.MULTILINE)
    assert pinned is not None
    assert index is not None
    for page in (ROOT / "README.md", ROOT / "docs" / "releases.md"):
        assert f"pip install {pinned[0]} --index-url {index[1]}" in page.read_text(), page
