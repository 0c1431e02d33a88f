"""The strategy as a TOML file: written with the meaning of each field above it, read by tomllib.

Only fields that differ from their defaults are written. The file is complete or absent: it is written beside
its place, flushed to disk and renamed.
"""

import os
from collections.abc import Iterable, Sequence
from contextlib import suppress
from itertools import groupby
from pathlib import Path

from fleet.errors import NotSupportedError, StrategyError, UnknownFieldError
from fleet.jobfiles.whole import sync_folder
from fleet.strategy.mode import MODE_FIELDS
from fleet.strategy.record import Leaf, StrategyRecord

HEADER = "# A Fleet strategy: the fields that differ from their defaults. help(fleet.DistributedStrategy) lists all.\n"
BARE = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-")


def write(record: StrategyRecord, said: Sequence[Leaf], path: str | os.PathLike[str]) -> None:
    """Write some fields of a record, atomically; an error is one line that begins with the file's path."""
    write_text(path, _document(_written(record, said)))


def write_text(path: str | os.PathLike[str], document: str) -> None:
    """Write a file atomically; an error is one line that begins with its path."""
    try:
        _replace(Path(path), document)
    except OSError as error:
        raise StrategyError(f"{os.fspath(path)} cannot be written: {error.strerror or error}") from None


def _replace(target: Path, document: str) -> None:
    beside = target.with_name(f".{target.name}.{os.urandom(4).hex()}")
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    try:
        with open(descriptor, "w", encoding="utf-8", newline="\n") as file:
            file.write(document)
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, target)
    except BaseException:
        with suppress(FileNotFoundError):
            beside.unlink()
        raise
    sync_folder(target.parent)


def read(record: StrategyRecord, path: str | os.PathLike[str]) -> None:
    """Set every field of the file; each error is one line that begins with the file's path."""
    import tomllib  # which only whoever reads a file needs

    place = os.fspath(path)
    try:
        with open(place, "rb") as file:
            content = tomllib.load(file)
    except OSError as error:
        raise StrategyError(f"{place} cannot be read: {error.strerror}; check the path") from None
    except (ValueError, RecursionError) as error:  # ValueError: not TOML, or not UTF-8
        reason = "nested too deeply" if isinstance(error, RecursionError) else " ".join(str(error).split())
        raise StrategyError(f"{place} is not a TOML file: {reason}") from None
    # Groups after switches: a file's a_sync_configs.k_steps must outlive the 0 that a_sync puts there.
    for name, value in sorted(content.items(), key=lambda item: isinstance(item[1], dict)):
        try:
            setattr(record, name, value)
        except (NotSupportedError, StrategyError, UnknownFieldError) as error:
            raise type(error)(f"{place}: {error}") from None


def _written(record: StrategyRecord, said: Sequence[Leaf]) -> list[Leaf]:
    # a_sync and k_steps only make sense together, and reading a_sync alone would set k_steps.
    mode_chosen = any(leaf.differs for leaf in record.leaves() if leaf.dotted in MODE_FIELDS)
    together = MODE_FIELDS[:2] if mode_chosen else ()
    paths = {leaf.path for leaf in said}
    return [leaf for leaf in record.leaves() if leaf.path in paths or leaf.dotted in together]


def _document(leaves: Iterable[Leaf]) -> str:
    # In TOML a plain key after a [table] belongs to the table: top-level fields go first.
    ordered = sorted(leaves, key=lambda leaf: len(leaf.path) > 1)
    parts = [HEADER]
    for table, members in groupby(ordered, key=lambda leaf: leaf.path[:-1]):
        if table:
            parts.append(f"\n[{'.'.join(map(_key, table))}]\n")
        for leaf in members:
            name = leaf.path[-1]
            parts.append(f"\n# {name} {leaf.field.summary}\n{_key(name)} = {_value(leaf.value)}\n")
    return "".join(parts)


def _key(name: str) -> str:
    return name if name and BARE.issuperset(name) else _quoted(name)


def _value(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return _quoted(value)
    if isinstance(value, tuple):
        return f"[{', '.join(map(_value, value))}]"
    assert isinstance(value, int | float), value
    return repr(value)


def _quoted(text: str) -> str:
    return '"' + "".join(_escaped(character) for character in text) + '"'


def _escaped(character: str) -> str:
    if character in '"\\':
        return "\\" + character
    if character < " " or character == "\x7f":
        return f"\\u{ord(character):04x}"
    return character
