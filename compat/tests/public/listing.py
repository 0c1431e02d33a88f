"""The lists of public scripts: `lists/*.toml`, read strictly.

A script is a name, where its files are, a command and what is expected of the numbers that it prints; its code is not
here. A line that means nothing is an error, so that no expectation is lost to a spelling.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any, Literal

LISTS = Path(__file__).parent / "lists"


class ListError(ValueError):
    """A list says something that cannot be meant."""


@dataclass(frozen=True)
class Script:
    """One public script, how it is run, and what it must show."""

    name: str
    version: str
    """Of PaddlePaddle, for which it was written."""
    source: str
    """Repository and commit, or package and version."""
    files: tuple[str, ...]
    """What must be there, below the folder of all public scripts."""
    cwd: str
    """A folder of it: a copy is made, and the command runs there."""
    command: tuple[str, ...]
    """`python` and `fleetrun` are those of this environment; `{root}` is the folder that holds all copies."""
    value: str
    """A pattern with one group: what it finds in the output, in order, are the values."""
    expect: Literal["falls", "rises"]
    timeout_s: float
    beside: tuple[str, ...] = ()
    """`with` in a list: more folders or files that are copied."""
    data: str | None = None
    """A function of `data/` that writes files into the copy before the script runs."""
    env: Mapping[str, str] = field(default_factory=dict)
    logs: tuple[str, ...] = ()
    """Patterns of files in the copy whose text is read, after the run, as if it had been printed."""

    def missing(self, folder: Path) -> list[str]:
        """What of it is not in that folder."""
        return [name for name in (*self.files, self.cwd, *self.beside) if not (folder / name).exists()]


def read_lists(folder: Path = LISTS) -> list[Script]:
    """The scripts of all lists in a folder, by the names of the lists; ListError for a name that is there twice."""
    found: dict[str, tuple[Script, Path]] = {}
    for path in sorted(folder.glob("*.toml")):
        for script in read_list(path):
            if script.name in found:
                raise ListError(
                    f"{path.name}: the script {script.name!r} is in {found[script.name][1].name} already; "
                    "give one of them another name"
                )
            found[script.name] = script, path
    return [script for script, _ in found.values()]


def read_list(path: Path) -> list[Script]:
    """The scripts of one list."""
    try:
        tables = tomllib.loads(path.read_text())
    except tomllib.TOMLDecodeError as error:
        raise ListError(f"{path.name} is not TOML: {error}") from None
    if unknown := tables.keys() - {"script"}:
        raise ListError(f"{path.name}: {min(unknown)!r} is unknown at the top; a list is made of [[script]] tables")
    entries = tables.get("script", [])
    if not isinstance(entries, list):
        raise ListError(f"{path.name}: [script] must be [[script]], one table for each script")
    return [_script(f"{path.name}: script {number}", entry) for number, entry in enumerate(entries, 1)]


_REQUIRED = ("name", "version", "source", "files", "cwd", "command", "value", "expect", "timeout_s")
_TEXTS = ("name", "version", "source", "cwd", "value", "expect", "data")
_TEXT_LISTS = ("files", "command", "with", "logs")


def _script(where: str, entry: Mapping[str, Any]) -> Script:
    where = f"{where} ({entry['name']})" if "name" in entry else where
    if unknown := entry.keys() - {*_REQUIRED, *_TEXTS, *_TEXT_LISTS, "env"}:
        raise ListError(f"{where}: {min(unknown)!r} is no key of a script; known are {_all_keys()}")
    if missing := [key for key in _REQUIRED if key not in entry]:
        raise ListError(f"{where}: {missing[0]!r} is missing")
    for key in _TEXTS:
        if not isinstance(entry.get(key, ""), str):
            raise ListError(f"{where}: {key} must be a text, got {entry[key]!r}")
    for key in _TEXT_LISTS:
        if not _is_list_of_texts(entry.get(key, [])):
            raise ListError(f"{where}: {key} must be a list of texts, got {entry[key]!r}")
    _check_values(where, entry)
    return Script(
        **{key: entry[key] for key in _TEXTS if key in entry},
        files=tuple(entry["files"]),
        command=tuple(entry["command"]),
        timeout_s=float(entry["timeout_s"]),
        beside=tuple(entry.get("with", ())),
        env=dict(entry.get("env", {})),
        logs=tuple(entry.get("logs", ())),
    )


def _check_values(where: str, entry: Mapping[str, Any]) -> None:
    if entry["expect"] not in ("falls", "rises"):
        raise ListError(f"{where}: expect must be 'falls' or 'rises', got {entry['expect']!r}")
    if isinstance(entry["timeout_s"], bool) or not isinstance(entry["timeout_s"], int | float):
        raise ListError(f"{where}: timeout_s must be a number of seconds, got {entry['timeout_s']!r}")
    if entry["timeout_s"] <= 0:
        raise ListError(f"{where}: timeout_s must be more than 0, got {entry['timeout_s']}")
    for key in ("files", "command"):
        if not entry[key]:
            raise ListError(f"{where}: {key} is empty")
    env = entry.get("env", {})
    if not isinstance(env, dict) or not _is_list_of_texts(list(env.values())):
        raise ListError(f"{where}: env must be a table of texts, got {env!r}")
    for name in (*entry["files"], entry["cwd"], *entry.get("with", ())):
        if PurePosixPath(name).is_absolute() or ".." in PurePosixPath(name).parts:
            raise ListError(f"{where}: {name!r} leads out of the folder of scripts; name what is below it")
    try:
        groups = re.compile(entry["value"]).groups
    except re.error as error:
        raise ListError(f"{where}: value is no regular expression: {error}") from None
    if groups != 1:
        raise ListError(f"{where}: value must have one group, which is the number; {entry['value']!r} has {groups}")


def _is_list_of_texts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(one, str) for one in value)


def _all_keys() -> str:
    return ", ".join(sorted({*_REQUIRED, *_TEXTS, *_TEXT_LISTS, "env"}))


def chosen(scripts: Sequence[Script], names: Sequence[str]) -> list[Script]:
    """Those that are named, by name or by its beginning up to a slash; all of them where none is."""
    if not names:
        return list(scripts)
    found = []
    for name in names:
        matches = [one for one in scripts if one.name == name or one.name.startswith(name.rstrip("/") + "/")]
        if not matches:
            raise ListError(f"no script is called {name!r}; --list shows all names")
        found += [one for one in matches if one not in found]
    return found
