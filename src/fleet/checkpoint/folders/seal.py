"""JSON that ends with its own checksum, so that no change to it goes unnoticed, be it white space; still plain JSON."""

import json
import re
from collections.abc import Mapping
from typing import Any

from fleet.checkpoint.files.checksum import Checksum, checksum, is_checksum
from fleet.checkpoint.files.fields import Fields, parse_json
from fleet.errors import CheckpointError

SEAL = "checksum"
_TAIL = re.compile(rb',\n "checksum": "([a-z0-9]+:[0-9a-f]{8})"\n\}\n')
_TAIL_BYTES = 64  # no tail is longer


def seal(document: Mapping[str, Any], style: Mapping[str, Any]) -> str:
    """A document, with `style` for json.dumps, and the sum of all before it as its last field."""
    assert SEAL not in document
    body = json.dumps(dict(document), **style).removesuffix("}").rstrip()
    return f'{body},\n "{SEAL}": "{checksum(body.encode())}"\n}}\n'


def unseal(data: bytes, where: str) -> tuple[Fields, bool]:
    """What a document says, and whether it was sealed; CheckpointError if it is not as it was sealed.

    Whether it may be without a seal is for the caller to decide. One that has lost its seal still has its name.
    """
    begin = max(0, len(data) - _TAIL_BYTES)
    tail = _TAIL.search(data, begin)
    if tail is None or tail.end() != len(data):
        return parse_json(data, where), False
    saved = tail[1].decode()
    if not is_checksum(saved):
        raise CheckpointError(f"{where} is damaged: it ends with {saved!r}, which is no checksum")
    found = Checksum(saved)
    found.add(memoryview(data)[: tail.start()])
    if str(found) != saved:
        raise CheckpointError(f"{where} is damaged: its checksum is {found}, saved was {saved}")
    return parse_json(data, where), True


def require_seal(fields: Fields, is_sealed: bool) -> None:
    """CheckpointError for a document that should have a seal and has none that fits."""
    if not is_sealed:
        raise CheckpointError(f"{fields.where} is damaged: it does not end with its checksum")
