"""What `make site` does to the pages of docs/ on their way into the site; mkdocs calls these functions."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import outside
import reference
import tables
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files, InclusionLevel
from mkdocs.structure.pages import Page

warnings.simplefilter("ignore", DeprecationWarning)  # those of torch, which mkdocs would count as its own
DOCS = Path(__file__).resolve().parents[1] / "docs"
# How much a page counts in the search. Not in its front matter, which a code host shows as a table.
BOOSTS = {"tutorial.md": 2.0, "errors.md": 3.0, "internals.md": 0.5, "repository/": 0.5, "adr/": 0.5}


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Put the pages of a folder into the navigation, where that names the folder."""
    config.nav = expanded(config.nav)
    return config


def expanded(entries: Any) -> list[Any]:
    """The navigation with a list of pages in place of each folder."""
    found: list[Any] = []
    for entry in entries:
        if isinstance(entry, str):
            found.append(entry)
            continue
        ((title, below),) = entry.items()
        if isinstance(below, list):
            found.append({title: expanded(below)})
        elif below.endswith("/"):
            pages = sorted(page.relative_to(DOCS).as_posix() for page in (DOCS / below).glob("*.md"))
            pages.sort(key=lambda page: not page.endswith(("/README.md", "/index.md")))
            found.append({title: pages})
        else:
            found.append(entry)
    return found


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add what pages lead to outside of docs/."""
    for page, text in outside.pages().items():
        if files.get_file_from_path(page) is None:
            files.append(File.generated(config, page, content=text, inclusion=InclusionLevel.NOT_IN_NAV))
    return files


def on_page_markdown(markdown: str, *, page: Page, **_: Any) -> str:
    """Lead links where the site has what they mean, and fill the pages of the reference."""
    where = page.file.src_uri
    for begin, boost in BOOSTS.items():
        if where.startswith(begin):
            page.meta.setdefault("search", {})["boost"] = boost
    if where.startswith(f"{outside.HOME}/"):
        return markdown  # rewritten when it was made
    text = outside.rewritten(markdown, outside.origin(where), where)
    return reference.filled(text) if where.startswith("api/") else text


def on_page_content(html: str, **_: Any) -> str:
    """Make tables legible on a narrow page."""
    return tables.legible(html)
