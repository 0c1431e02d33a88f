"""YAML as a person would write it, from dicts, lists and scalars; a comment may stand beside any value."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

_PLAIN = re.compile(r"[A-Za-z/_][\w./@-]*( [\w./@-]+)*(:[\w./@-]+)*")
_SCRIPT = re.compile(r"[!-~](([ -~]|\n)*[!-~])?\n")
"""Lines that may stand as they are."""
_WORDS_OF_YAML = {"true", "false", "null", "yes", "no", "on", "off", "y", "n"}


@dataclass(frozen=True)
class Noted:
    """A value with a comment behind it, for what a site has to choose or a reader would ask."""

    value: object
    note: str


def documents(*found: object) -> str:
    """One YAML document for each value, divided as kubectl expects them."""
    return "---\n".join("\n".join(_lines(one, 0)) + "\n" for one in found)


def comment(text: str) -> str:
    """Each line of a text as a comment."""
    return "".join(f"# {line}".rstrip() + "\n" for line in text.splitlines())


def _lines(value: object, depth: int) -> Iterator[str]:
    """The lines of a dict or a list that is not empty."""
    room = "  " * depth
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _entry(f"{room}{_scalar(key)}:", inner, depth + 1)
    elif isinstance(value, Sequence):
        for inner in value:
            if _is_nested(inner):
                first, *rest = _lines(inner, depth + 1)
                yield from (f"{room}- {first.lstrip()}", *rest)
            else:
                yield from _entry(f"{room}-", inner, depth + 1)


def _entry(begin: str, value: object, depth: int) -> Iterator[str]:
    """What stands behind a key or a dash: on the same line, or nested below."""
    note = ""
    if isinstance(value, Noted):
        note, value = f"  # {value.note}", value.value
    if isinstance(value, str) and _SCRIPT.fullmatch(value):
        yield f"{begin} |{note}"
        yield from ("  " * depth + line if line else "" for line in value[:-1].split("\n"))
    elif _is_nested(value):
        yield begin + note
        yield from _lines(value, depth)
    else:
        yield f"{begin} {_scalar(value)}{note}"


def _is_nested(value: object) -> bool:
    """Whether it takes lines of its own; `{}` and `[]` do not."""
    return bool(value) and isinstance(value, Mapping | Sequence) and not isinstance(value, str)


def _scalar(value: object) -> str:
    if isinstance(value, str):
        is_plain = _PLAIN.fullmatch(value) and value.lower() not in _WORDS_OF_YAML
        return value if is_plain else json.dumps(value, ensure_ascii=False)
    return json.dumps(value)  # numbers, true, null; {} and [] are the same in both
