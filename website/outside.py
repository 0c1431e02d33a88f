"""Links that leave docs/: what they lead to becomes a page of the site, and the link leads there.

A page is written for a code host, where `../benchmarks/results/ctr.json` is a file of the repository. In the site a
Markdown file outside docs/ is a page under `repository/`, a folder is a list of its files, and any other text file is
shown as code. A README of a folder is a page beside that folder: mkdocs would make it the index of its section, which
has no entry of its own in the navigation. One page of docs/ is made for the site alone: the names of PaddlePaddle.
"""

from __future__ import annotations

import posixpath
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
HOME = "repository"
NAMES = "docs/paddle_names.md"
LINK = re.compile(r"(!?\[(?:[^\[\]]|\[[^\]]*\])*\]\()([^)#\s]*)(#[^)\s]*)?(\))")
FENCE = re.compile(r"^ *(```|~~~)")
LANGUAGES = {".py": "python", ".json": "json", ".proto": "protobuf", ".yml": "yaml", ".yaml": "yaml", ".sh": "bash"}


@cache
def names() -> str:
    """The page of PaddlePaddle's names, from the tables of `compat/`, which need not be installed."""
    command = [sys.executable, "-m", "paddle._reference"]
    where = ROOT / "compat" / "src"
    return subprocess.run(command, cwd=where, check=True, stdout=subprocess.PIPE, text=True).stdout


def exists(path: str) -> bool:
    """Whether a link may lead there: to a file or folder of the repository, or to the page that is made."""
    return path == NAMES or (ROOT / path).exists()


def is_elsewhere(target: str) -> bool:
    """Whether a link leads out of the repository."""
    return target.startswith(("http://", "https://", "mailto:"))


def place(path: str) -> str:
    """The site's page or file for a file or folder of the repository."""
    if path in ("README.md", ""):
        return "index.md"
    where = ROOT / path
    if where.is_dir():
        inner = "README.md" if (where / "README.md").exists() else "index.md"
        return place_of_file(posixpath.join(path, inner))
    return place_of_file(path)


def place_of_file(path: str) -> str:
    """The same, for a file that need not be there."""
    if path.startswith("docs/"):
        return path.removeprefix("docs/")
    path = path.removesuffix("/README.md")
    return f"{HOME}/{path}" if path.endswith(".md") else f"{HOME}/{path}.md"


def origin(page: str) -> str:
    """The file of the repository that a page of the site was made from."""
    return page.removeprefix(f"{HOME}/") if page.startswith(f"{HOME}/") else f"docs/{page}"


def links(text: str) -> Iterator[tuple[str, str]]:
    """Target and anchor of each link within the repository, outside of code."""
    for line in prose(text):
        for found in LINK.finditer(re.sub(r"`[^`]*`", "", line)):
            if not is_elsewhere(found[2]):
                yield found[2], (found[3] or "").removeprefix("#")


def prose(text: str) -> Iterator[str]:
    """The lines that are not code; a line of code comes as an empty one."""
    is_code = False
    for line in text.splitlines():
        if FENCE.match(line):
            is_code = not is_code
            yield ""
        else:
            yield "" if is_code else line


def resolve(path: str, target: str) -> str:
    """The file of the repository that a link in `path` leads to."""
    return posixpath.normpath(posixpath.join(posixpath.dirname(path), target)) if target else path


def rewritten(text: str, path: str, page: str) -> str:
    """The text of `path` with its links as the site's page `page` needs them."""

    def replace(found: re.Match[str]) -> str:
        if is_elsewhere(found[2]) or not found[2]:
            return found[0]
        wanted = resolve(path, found[2])
        if not exists(wanted):
            return found[0]  # mkdocs says so
        where, anchor = place(wanted), found[3] or ""
        if wanted == "README.md" and anchor:  # its sections are pages of the site
            where, anchor = ("install.md" if anchor == "#install" else where), ""
        return f"{found[1]}{posixpath.relpath(where, posixpath.dirname(page) or '.')}{anchor}{found[4]}"

    lines = text.splitlines()
    for number, kept in enumerate(prose(text)):
        if kept:
            lines[number] = LINK.sub(replace, lines[number])
    return "\n".join(lines) + "\n"


def pages() -> dict[str, str]:
    """Everything that pages lead to, directly or not, and docs/ does not have: its page in the site -> text."""
    found = {place(NAMES): names()}
    named = ["CHANGELOG.md", "SECURITY.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "examples/README.md"]
    waiting = [*named, *(file.relative_to(ROOT).as_posix() for file in (ROOT / "docs").rglob("*.md"))]
    seen = set(waiting)
    while waiting:
        path = waiting.pop()
        where, page = ROOT / path, place(path)
        if path.endswith(".md") and where.is_file():
            text = where.read_text()
            reached = [resolve(path, target) for target, _ in links(text)]
            if not path.startswith("docs/") and path != "README.md":
                found[page] = rewritten(text, path, page)
        elif where.is_dir():
            inside = [one for one in sorted(where.iterdir()) if one.is_file() and one.suffix != ".svg"]
            readme = posixpath.join(path, "README.md")
            reached = [readme] if (ROOT / readme).exists() else [one.relative_to(ROOT).as_posix() for one in inside]
            if reached != [readme]:
                found[page] = listing(path, reached, page)
        else:
            reached = []
            if where.is_file() and not path.startswith("docs/"):
                found[page] = shown(path, where)
        for one in reached:
            if one not in seen and (ROOT / one).exists() and not one.startswith(".."):
                seen.add(one)
                waiting.append(one)
    return found


def shown(path: str, where: Path) -> str:
    """A page with a file's text; search leaves it out."""
    language = LANGUAGES.get(where.suffix, "text")
    return (
        f"---\nsearch:\n  exclude: true\n---\n# {where.name}\n\n`{path}`\n\n````{language}\n{where.read_text()}````\n"
    )


def listing(path: str, files: list[str], page: str) -> str:
    """A page that names the files of a folder."""
    lines = [f"# {posixpath.basename(path)}", "", f"`{path}/`", ""]
    for file in files:
        relative = posixpath.relpath(place(file), posixpath.dirname(page) or ".")
        lines.append(f"- [{posixpath.basename(file)}]({relative})")
    return "\n".join(lines) + "\n"
