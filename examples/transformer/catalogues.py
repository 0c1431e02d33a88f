"""A parallel corpus that most Linux machines have: the translated messages of their programs (gettext's .mo files).

    python examples/transformer/catalogues.py /usr/share/locale/de/LC_MESSAGES > messages.tsv
    python examples/transformer/catalogues.py FOLDER-OF-UNPACKED-PACKAGES --language de > messages.tsv

A line is an English message, a tab, its translation. train.py takes the folder or the file. Debian's desktop packages
(kdelibs, gnome, gimp, libreoffice-l10n-de) have a hundred thousand messages and more: `dpkg-deb -x PACKAGE.deb FOLDER`.
"""

from __future__ import annotations

import argparse
import re
import struct
import sys
from collections.abc import Iterator
from pathlib import Path

from fleet.errors import UsageError

_MAGIC = 0x950412DE


def pairs_of(folder: Path, language: str = "de") -> list[tuple[str, str]]:
    """Messages and their translations in all catalogues of a language below a folder, each message once, sorted.

    A folder that is a language's own (.../de/LC_MESSAGES) is taken as it is; below any other, those of `language`.
    """
    files = sorted(folder.rglob("*.mo"))
    sorted_by_language = [file for file in files if "LC_MESSAGES" in file.parts[:-1]]
    if folder.resolve().name != "LC_MESSAGES" and sorted_by_language:
        files = [file for file in sorted_by_language if file.parent.parent.name == language]
    found: dict[str, str] = {}
    for file in files:
        for english, other in messages_of(file.read_bytes(), file):
            if english and other and english != other:
                found.setdefault(english, other)
    if not found:
        raise UsageError(
            f"{folder} has no translated messages (.mo files) for language {language!r}; try /usr/share/locale"
        )
    return sorted(found.items())


def messages_of(data: bytes, file: Path) -> Iterator[tuple[str, str]]:
    """The pairs of one catalogue."""
    order = next((one for one in "<>" if len(data) >= 20 and struct.unpack(one + "I", data[:4])[0] == _MAGIC), None)
    if order is None:
        raise UsageError(f"{file} is no message catalogue: it does not begin as a .mo file does")
    charset = "utf-8"
    try:
        count, first, second = struct.unpack(order + "3I", data[8:20])
        for number in range(count):
            english, other = (
                _cut(data, *struct.unpack_from(order + "2I", data, table + 8 * number)) for table in (first, second)
            )
            if not english:  # the header, which comes first
                charset = _charset(other)
            elif other:
                yield _text(english, charset), _text(other, charset)
    except (struct.error, UnicodeDecodeError, LookupError) as error:
        raise UsageError(f"{file} is damaged ({error}); leave it out") from None


def _cut(data: bytes, length: int, begin: int) -> bytes:
    if begin + length > len(data):
        raise struct.error("it ends too early")
    return data[begin : begin + length]


def _charset(header: bytes) -> str:
    found = re.search(rb"charset=([\w.:-]+)", header)
    return "utf-8" if found is None else found[1].decode()


def _text(message: bytes, charset: str) -> str:
    """On one line; of plurals the first form, and no context."""
    first = message.partition(b"\0")[0].rpartition(b"\x04")[2]
    return " ".join(first.decode(charset).split())


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--language", default="de", help="[default: de]")
    options = parser.parse_args()
    try:
        for pair in pairs_of(options.folder, options.language):
            print("\t".join(pair))
    except UsageError as error:
        sys.exit(f"catalogues.py: {error}")
