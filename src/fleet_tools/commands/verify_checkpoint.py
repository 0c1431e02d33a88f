"""Whether what was saved in a folder is whole."""

import sys
from pathlib import Path

from fleet.checkpoint.files.files import check_file
from fleet.checkpoint.folders.contents import Contents
from fleet.checkpoint.folders.folder import find, read_contents
from fleet.errors import CheckpointError, UsageError

_USAGE = (
    "python -m fleet.checkpoint verify FOLDER: one checkpoint, the folder of fleet.Checkpoint, or an inference copy"
)


def main(arguments: list[str]) -> int:
    """Say in one line what is whole; 0 if all is, 1 if something is damaged, 2 if there is nothing to look at."""
    if len(arguments) != 2 or arguments[0] != "verify":
        print(_USAGE, file=sys.stderr)
        return 2
    folder = Path(arguments[1])
    try:
        saves = saves_in(folder)
    except UsageError as error:
        print(f"checkpoint: {error}", file=sys.stderr)
        return 2
    whole, wrong = [], []
    for save, kind in saves:
        try:
            whole.append(f"{save.name}, {verify(save, kind)}")
        except CheckpointError as error:
            wrong.append(str(error))
    if not wrong:
        print(f"{folder} is whole: {'; '.join(whole)}")
        return 0
    others = f" (and {len(wrong) - 1} more)" if len(wrong) > 1 else ""
    print(f"{folder} is not whole: {wrong[0]}{others}" + (f"; whole is: {'; '.join(whole)}" if whole else ""))
    return 1


def saves_in(folder: Path) -> list[tuple[Path, type[Contents]]]:
    """What was saved in a folder, or in its folders of steps; UsageError if nothing was."""
    if not folder.is_dir():
        raise UsageError(f"{folder} is no folder; give the one that was saved")
    if any(folder.glob("server-*/journal-*.log")) or any(folder.glob("journal-*.log")):
        raise UsageError(f"{folder} is what servers of a durable job keep; use fleetrun --verify-journal {folder}")
    steps = sorted(path for path in folder.glob("step-*") if path.is_dir() and any(path.iterdir()))
    found = []
    for path in steps or [folder]:
        kinds = [kind for kind in Contents.KINDS if (path / kind.FILE).exists()] or [
            kind for kind in Contents.KINDS if not steps and _is_found(path, kind)
        ]
        if not kinds and not steps:
            raise UsageError(
                f"nothing was saved in {folder}: it has none of {_files()}; give the folder that was saved"
            )
        found.append((path, kinds[0] if kinds else Contents.KINDS[0]))
    return found


def verify(folder: Path, kind: type[Contents]) -> str:
    """Read every byte of a save, and say what it is; CheckpointError that names the first file that is damaged."""
    where = find(folder, kind)
    contents = read_contents(where, kind)
    for info in contents.files:
        check_file(where / info.name, info)
    size = sum(info.size_bytes for info in contents.files)
    return f"{contents.WHAT} of {len(contents.files)} files, {size / 1e6:,.1f} MB"


def _is_found(folder: Path, kind: type[Contents]) -> bool:
    try:
        find(folder, kind)
    except CheckpointError:
        return False
    return True


def _files() -> str:
    return ", ".join(kind.FILE for kind in Contents.KINDS)
