"""Whether what was saved in a folder is whole."""

import sys
from collections.abc import Container
from pathlib import Path

from fleet.checkpoint import Manifest, read_chain
from fleet.checkpoint.files.files import check_file
from fleet.checkpoint.folders.contents import Contents
from fleet.checkpoint.folders.folder import find, read_contents
from fleet.errors import CheckpointError, UsageError
from fleet_tools.commands.compact_checkpoint import compact

_USAGE = (
    "python -m fleet.checkpoint verify FOLDER: one checkpoint, the folder of fleet.Checkpoint, or an inference copy; "
    "compact FOLDER: fold the increments there into one whole save"
)


def main(arguments: list[str]) -> int:
    """Say in one line what is whole; 0 if all is, 1 if something is damaged, 2 if there is nothing to look at."""
    if len(arguments) != 2 or arguments[0] not in ("verify", "compact"):
        print(_USAGE, file=sys.stderr)
        return 2
    folder = Path(arguments[1])
    if arguments[0] == "compact":
        return _compact(folder)
    try:
        saves = saves_in(folder)
    except UsageError as error:
        print(f"checkpoint: {error}", file=sys.stderr)
        return 2
    whole, wrong, beside = list[str](), list[str](), {save.resolve() for save, _ in saves}
    for save, kind in saves:
        try:
            whole.append(f"{save.name}, {verify(save, kind, beside)}")
        except CheckpointError as error:
            wrong.append(str(error))
    if not wrong:
        print(f"{folder} is whole: {'; '.join(whole)}")
        return 0
    others = f" (and {len(wrong) - 1} more)" if len(wrong) > 1 else ""
    print(f"{folder} is not whole: {wrong[0]}{others}" + (f"; whole is: {'; '.join(whole)}" if whole else ""))
    return 1


def _compact(folder: Path) -> int:
    try:
        print(compact(folder))
    except (UsageError, CheckpointError) as error:
        print(f"checkpoint: {error}", file=sys.stderr)
        return 2 if isinstance(error, UsageError) else 1
    return 0


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


def verify(folder: Path, kind: type[Contents], beside: Container[Path] = ()) -> str:
    """Read every byte of a save, and of those that it is made of, and say what it is; `beside`: others see to these.

    CheckpointError that names the first file that is damaged.
    """
    where = find(folder, kind)
    saves: list[tuple[Path, Contents]] = [(where, read_contents(where, kind))]
    increments = ""
    if kind is Manifest:
        chain = read_chain(where)
        saves = [*(link for link in chain[:-1] if link.folder == where or link.folder not in beside), chain[-1]]
        increments = f" with {len(chain) - 1} increments" if len(saves) == len(chain) > 1 else ""
        if len(saves) < len(chain):
            increments = f" on {chain[-2].folder.name}"
    files = [(path / info.name, info) for path, contents in saves for info in contents.files]
    for path, info in files:
        check_file(path, info)
    size = sum(info.size_bytes for _, info in files)
    return f"{kind.WHAT}{increments} of {len(files)} files, {size / 1e6:,.1f} MB"


def _is_found(folder: Path, kind: type[Contents]) -> bool:
    try:
        find(folder, kind)
    except CheckpointError:
        return False
    return True


def _files() -> str:
    return ", ".join(kind.FILE for kind in Contents.KINDS)
