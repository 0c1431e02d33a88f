"""Whether what a durable job keeps is whole."""

import sys
from pathlib import Path

from fleet.errors import UsageError
from fleet.ps.journal.files import segments_in, snapshots_in
from fleet.ps.journal.verify import Verified, verify

NUM_TRIES = 5
"""How often a folder is read whose server takes a snapshot meanwhile."""


def main(arguments: list[str]) -> int:
    """Say in one line what is whole; 0 if all is, 1 if something is damaged, 2 if there is nothing to look at."""
    if len(arguments) != 1:
        print("journal: give one folder: that of a durable job, or of one of its servers", file=sys.stderr)
        return 2
    folder = Path(arguments[0])
    try:
        found = {server: _verified(server) for server in servers_in(folder)}
    except UsageError as error:
        print(f"journal: {error}", file=sys.stderr)
        return 2
    wrong = [why for one in found.values() for why in one.damaged.values()]
    whole = "; ".join(_text(server, one) for server, one in found.items() if not one.damaged)
    if not wrong:
        print(f"{folder} is whole: {whole}")
        return 0
    others = f" (and {len(wrong) - 1} more files)" if len(wrong) > 1 else ""
    print(f"{folder} is not whole: {wrong[0]}{others}" + (f"; whole is: {whole}" if whole else ""))
    return 1


def servers_in(folder: Path) -> list[Path]:
    """The folders of servers that a durable job has kept, or this one; UsageError if there are none."""
    if not folder.is_dir():
        raise UsageError(f"{folder} is no folder; give the one that --durable named")
    candidates = [folder, *(path for path in sorted(folder.glob("server-*"), key=_by_number) if path.is_dir())]
    if found := [path for path in candidates if segments_in(path) or snapshots_in(path)]:
        return found
    raise UsageError(f"no server has kept anything in {folder}: its job has ended in order; or give another folder")


def _by_number(path: Path) -> list[int]:
    return [int(part) for part in path.name.split("-") if part.isascii() and part.isdigit()]


def _verified(server: Path) -> Verified:
    for _ in range(NUM_TRIES):
        try:
            return verify(server)
        except FileNotFoundError:  # its server runs, and has taken a snapshot
            continue
    raise UsageError(f"{server} changes while it is read: its server runs, and looks at it itself; or stop the job")


def _text(server: Path, found: Verified) -> str:
    snapshot = "" if found.snapshot is None else f", snapshot at {found.snapshot:,}"
    sealed = f", {found.num_sealed} files of rows" if found.num_sealed else ""
    return f"{server.name} to record {found.last:,} ({found.num_bytes / 1e6:,.1f} MB{snapshot}{sealed})"
