"""Made-up text, pairs of sentences, images and catalogues for the examples, and their modules for a test to look at."""

from __future__ import annotations

import importlib
import random
import struct
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

EXAMPLES = Path(__file__).parents[3] / "examples"
_THINGS = {"cat": "Katze", "mouse": "Maus", "lamp": "Lampe", "flower": "Blume", "street": "Straße"}
_KINDS = {"red": "rote", "green": "grüne", "old": "alte", "small": "kleine", "big": "große"}
_DOES = {"sees": "sieht", "finds": "findet", "paints": "malt", "knows": "kennt"}


@contextmanager
def modules_of(example: str, *names: str) -> Iterator[tuple[ModuleType, ...]]:
    """Modules of an example, imported as its train.py does; afterwards this process does not know them any more."""
    before, path = set(sys.modules), list(sys.path)
    sys.path[:0] = [str(EXAMPLES / example), str(EXAMPLES)]
    try:
        yield tuple(importlib.import_module(name) for name in names)
    finally:
        sys.path[:] = path
        for name in set(sys.modules) - before:
            if str(getattr(sys.modules[name], "__file__", "")).startswith(str(EXAMPLES)):
                del sys.modules[name]


def pairs(number: int) -> list[tuple[str, str]]:
    """English sentences and their German: words one by one, but "today" moves the verb."""
    source = random.Random(0)

    def thing() -> tuple[str, str]:
        kind, name = source.choice(sorted(_KINDS)), source.choice(sorted(_THINGS))
        return f"the {kind} {name}", f"die {_KINDS[kind]} {_THINGS[name]}"

    found: dict[str, str] = {}
    while len(found) < number:
        (first, erste), (second, zweite) = thing(), thing()
        does = source.choice(sorted(_DOES))
        if source.random() < 0.5:
            found[f"today {first} {does} {second}"] = f"heute {_DOES[does]} {erste} {zweite}"
        else:
            found[f"{first} {does} {second}"] = f"{erste} {_DOES[does]} {zweite}"
    return list(found.items())


def write_pairs(path: Path, number: int = 1500) -> Path:
    path.write_text("".join(f"{english}\t{german}\n" for english, german in pairs(number)))
    return path


def write_text(path: Path, number: int = 1500) -> Path:
    path.write_text("".join(f"{english} .\n" for english, _ in pairs(number)))
    return path


def catalogue(messages: dict[str, str], order: str = "<", charset: str = "utf-8") -> bytes:
    """A .mo file with these messages, as gettext writes one."""
    tables: list[bytes] = []
    texts, place = b"", 28 + 16 * len(messages)
    for column in (sorted(messages), [messages[key] for key in sorted(messages)]):
        for text in column:
            data = text.encode(charset)
            tables.append(struct.pack(order + "2I", len(data), place + len(texts)))
            texts += data + b"\0"
    head = struct.pack(order + "7I", 0x950412DE, 0, len(messages), 28, 28 + 8 * len(messages), 0, 0)
    return head + b"".join(tables) + texts
