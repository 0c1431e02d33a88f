"""Which save a file belongs to: the hidden folder that a save writes into has a random id, and its files repeat it."""

import json
import os
import re
from contextlib import suppress
from pathlib import Path

ID = r"[0-9a-f]{8}"
SAVE = "save"
"""The field of a manifest, and of a safetensors file's metadata."""
_WRITING = re.compile(rf"\..+\.writing-({ID})")
_LONGEST_HEADER = 1 << 20


def save_id(folder: Path) -> str:
    """The id of the save that writes into this folder; empty if none does."""
    found = _WRITING.fullmatch(folder.name)
    return "" if found is None else found[1]


def later_save(path: Path) -> str:
    """Words for the save that has begun while `path` was to be written for another; empty if none is seen.

    `path` lies in the folder of a save that is gone, or is that folder.
    """
    for writing in (path, *path.parents):
        if save_id(writing):
            name = re.escape(writing.name.rpartition("-")[0])
            with suppress(OSError):
                others = [one for one in os.listdir(writing.parent) if re.fullmatch(rf"{name}-{ID}", one)]
                if others := [one for one in others if one != writing.name]:
                    return f"another save into the same folder has begun, in {writing.parent / others[0]}"
    return ""


def of_another_save(path: Path) -> str:
    """Words for a file that says it belongs to another save than the manifest beside it; empty if it does not.

    Asked about a file whose sum is wrong already: what it says is no more than a hint.
    """
    theirs = ours = None
    with suppress(OSError, ValueError, AttributeError):
        with open(path, "rb") as file:
            length = min(int.from_bytes(file.read(8), "little"), _LONGEST_HEADER)
            theirs = json.loads(file.read(length)).get("__metadata__", {}).get(SAVE)
        ours = json.loads((path.parent / "manifest.json").read_bytes()).get(SAVE)
    if theirs and ours and theirs != ours:
        return f"; it is a file of save {theirs}, and this checkpoint is save {ours}"
    return ""
