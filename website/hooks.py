"""What `make site` does to the pages of docs/ on their way into the site; mkdocs calls these functions."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import outside
import reference
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files, InclusionLevel
from mkdocs.structure.pages import Page

warnings.simplefilter("ignore", DeprecationWarning)  # those of torch, which mkdocs would count as its own
DOCS = Path(__file__).resolve().parents[1] / "docs"


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Take pages that are not written yet out of the navigation, and put those of a folder in."""
    config.nav = trimmed(config.nav)
    return config


def trimmed(entries: Any) -> list[Any]:
    """The navigation without pages that are not there."""
    kept: list[Any] = []
    for entry in entries:
        if isinstance(entry, str):
            kept += [entry] if (DOCS / entry).exists() else []
            continue
        ((title, below),) = entry.items()
        if isinstance(below, list):
            if inner := trimmed(below):
                kept.append({title: inner})
        elif below.endswith("/"):
            pages = sorted(page.relative_to(DOCS).as_posix() for page in (DOCS / below).glob("*.md"))
            kept.append({title: [f"{below}index.md", *pages]})
        elif below.startswith(f"{outside.HOME}/") or (DOCS / below).exists():
            kept.append(entry)
    return kept


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add what pages lead to outside of docs/."""
    for page, text in outside.pages().items():
        if files.get_file_from_path(page) is None:
            files.append(File.generated(config, page, content=text, inclusion=InclusionLevel.NOT_IN_NAV))
    return files


def on_page_markdown(markdown: str, *, page: Page, **_: Any) -> str:
    """Lead links where the site has what they mean, and fill the pages of the reference."""
    where = page.file.src_uri
    if where.startswith(f"{outside.HOME}/"):
        return markdown  # rewritten when it was made
    text = outside.rewritten(markdown, outside.origin(where), where)
    return reference.filled(text) if where.startswith("api/") else text
