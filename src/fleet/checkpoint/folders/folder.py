"""The life of a checkpoint's folder: begun, written into by many, then committed or aborted; found again after a crash.

A save into FOLDER uses hidden siblings, NAME being the last part of FOLDER:

    .NAME.writing-ID    what servers write into; complete as soon as it has a manifest
    .NAME.old-ID        the checkpoint that stood at FOLDER, while the new one takes its place
    .NAME.trash-ID      what is being deleted; never looked at

A commit moves FOLDER to `old`, `writing` to FOLDER, and deletes `old`. A crash between the two leaves FOLDER absent and
both siblings complete: `find` takes the new one, and the next `begin` puts it in its place. One save into a folder runs
at a time: `begin` deletes what an earlier one left, so an earlier one that still runs fails, and says so.
"""

import os
import re
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from fleet.checkpoint.files.files import check_size, read_file, reading, write_file
from fleet.checkpoint.files.identity import ID, later_save, save_id
from fleet.checkpoint.files.names import is_of_others
from fleet.checkpoint.folders.contents import Contents
from fleet.checkpoint.folders.manifest import Manifest
from fleet.checkpoint.folders.turns import turn
from fleet.errors import CheckpointError
from fleet.jobfiles.whole import sync_folder

C = TypeVar("C", bound=Contents)
INCREMENT = re.compile(r"increment-(\d{8})")
"""The name of an increment within the folder of its base."""


def begin(folder: str | os.PathLike[str], contents: type[Contents] = Manifest) -> Path:
    """Make the hidden folder that a save into `folder` writes to, after clearing up behind earlier saves.

    What `folder` holds beside an earlier save of this kind stays there: training is over when a script saves, and a
    refusal would lose it. CheckpointError where that cannot be: a file, a mount point, a manifest that is not Fleet's.
    """
    folder = _real(folder)
    with _trouble(f"cannot save into {folder}"):
        folder.parent.mkdir(parents=True, exist_ok=True)
        if os.path.ismount(folder):
            raise CheckpointError(f"cannot save into {folder}: it is a mount point; name a folder inside it")
        _strangers(folder, contents)
        tidy(folder, contents)
        writing = _sibling(folder, "writing")
        writing.mkdir()
        sync_folder(folder.parent)
    return writing


def commit(writing: Path, folder: str | os.PathLike[str], contents: Contents, *, reread: bool = False) -> Path:
    """Check that every file is there, write the manifest and put all of it in the place of `folder`.

    Sizes are checked; `reread=True` reads every byte back and checks the sums as well, in this one process. An older
    checkpoint in `folder` is replaced: at every moment the old or the new one is found complete.
    """
    folder = _real(folder)
    contents.check(f"the new {contents.WHAT} {folder}")
    with _trouble(f"cannot commit {folder}"):
        if not writing.exists() and (later := later_save(writing)):
            raise CheckpointError(f"cannot commit {folder}: {later}; save into one folder at a time")
        check_files(writing, contents, reread=reread)
        parent = getattr(contents, "parent", None)
        if parent is not None and Path(os.path.normpath(folder / parent.folder)) == folder:
            raise CheckpointError(f"cannot commit {folder}: it builds on what it would replace; save a whole one there")
        unfinished = writing / f"{contents.FILE}.unfinished"
        unfinished.unlink(missing_ok=True)  # of a former life, which was killed here
        strays = sorted(_all_files(writing) - {file.name for file in contents.files})
        for stray in [one for one in strays if is_of_others(one, getattr(contents, "num_servers", 0))]:
            (writing / stray).unlink(missing_ok=True)  # of servers whose place others took while they wrote
            strays.remove(stray)
        if strays:
            raise CheckpointError(f"{writing / strays[0]} was written by nobody who reported it; begin a new save")
        _keep(_strangers(folder, type(contents)), folder, writing)
        text = replace(contents, save=save_id(writing)).to_text().encode()
        write_file(unfinished, [text], len(text))
        os.rename(unfinished, writing / contents.FILE)
        for path in {writing, *((writing / file.name).parent for file in contents.files)}:
            sync_folder(path)
        _put_in_place(writing, folder)
    return folder


@contextmanager
def saving(folder: str | os.PathLike[str], contents: type[Contents] = Manifest) -> Iterator[Path]:
    """`begin`, and `abort` if what writes there fails; the block commits.

    Those who save beside each other at the same time, such as all workers of a job, take turns.
    """
    with turn(_real(folder).parent):
        writing = begin(folder, contents)
        try:
            yield writing
        except BaseException:
            abort(writing)
            raise


def abort(writing: Path) -> None:
    """Delete all that a save wrote, if it is still there; writers that have not noticed fail from now on."""
    with _trouble(f"cannot delete {writing}"):
        _discard(writing)


def tidy(folder: Path, contents: type[Contents]) -> None:
    """Finish the commit that a crash has interrupted, and delete what else earlier saves into `folder` have left."""
    with _trouble(f"cannot clear up behind {folder}"):
        _recover(folder, contents)
        for sibling in _siblings(folder, "writing", "old", "trash"):
            _discard(sibling)


def remove(folder: Path, contents: type[Contents]) -> None:
    """Delete a checkpoint; CheckpointError, and all of it stays, if its folder holds anything else."""
    with _trouble(f"cannot delete {folder}"):
        if names := _strangers(folder, contents):
            raise CheckpointError(
                f"cannot delete {folder}: it holds {min(names)!r}, which is no part of the {contents.WHAT} there; "
                "move that away"
            )
        trash = _sibling(folder, "trash")
        os.rename(folder, trash)
        _discard(trash)


def find(folder: str | os.PathLike[str], contents: type[Contents] = Manifest) -> Path:
    """The folder to load from: `folder` itself, or the sibling that a crash within a commit has left complete."""
    folder = _real(folder)
    with _trouble(f"cannot look into {folder}"):
        if (folder / contents.FILE).exists():
            return folder
        for sibling in _complete_siblings(folder, contents):
            return sibling
        # A commit that ran meanwhile has moved it from where we looked second to where we looked first.
        if (folder / contents.FILE).exists():
            return folder
    raise CheckpointError(f"no {contents.WHAT} in {folder}: {_why_not(folder, contents)}")


def _why_not(folder: Path, contents: type[Contents]) -> str:
    if not folder.exists():
        return "there is no such folder"
    if steps := sorted(one.name for one in folder.glob("step-*") if (one / contents.FILE).exists()):
        return f"it holds {', '.join(steps[-3:])} of fleet.Checkpoint; name one of them: {folder / steps[-1]}"
    if not folder.is_dir():
        return "it is a file; give the folder that was saved"
    others = (kind for kind in Contents.KINDS if kind.FILE != contents.FILE)
    if (other := next((kind for kind in others if (folder / kind.FILE).exists()), None)) is not None:
        return f"it holds {other.described()}"
    if (strangers := strangers_in(folder)) is not None:
        return strangers
    return f"it has no {contents.FILE}, so its save did not finish"


def strangers_in(folder: Path) -> str | None:
    """What a folder holds in which nothing was saved; None where something was."""
    names = sorted(one.name for one in folder.iterdir())
    if any(name.endswith((".safetensors", ".npy", ".json")) or name.startswith("step-") for name in names):
        return None
    if not names:
        return "it is empty; give the folder that was saved"
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return f"it holds {', '.join(names[:3])}{more} and nothing of a save; give the folder that was saved"


def read_contents(folder: Path, contents: type[C]) -> C:
    """The manifest or index of a folder that `find` gave."""
    path = folder / contents.FILE
    with reading(path) as descriptor, open(descriptor, "rb", closefd=False) as file:
        return contents.from_text(file.read(), str(path))


def check_files(folder: Path, contents: Contents, *, reread: bool = False) -> None:
    """Raise a CheckpointError naming the first file that is missing or not as it was written."""
    for info in contents.files:
        path = folder / info.name
        if reread:
            read_file(path, info)
        else:
            with reading(path) as descriptor:
                check_size(path, descriptor, info)


def _put_in_place(writing: Path, folder: Path) -> None:
    old = _sibling(folder, "old")
    with suppress(FileNotFoundError):
        os.rename(folder, old)
    try:
        os.rename(writing, folder)
    except OSError:
        with suppress(OSError):
            os.rename(old, folder)
        raise
    sync_folder(folder.parent)
    _discard(old)


def _recover(folder: Path, contents: type[Contents]) -> None:
    """Put in its place what a crash within a commit has left beside it."""
    if (folder / contents.FILE).exists():
        return
    for sibling in _complete_siblings(folder, contents):
        with suppress(FileNotFoundError):
            folder.rmdir()
        os.rename(sibling, folder)
        sync_folder(folder.parent)
        return


def _complete_siblings(folder: Path, contents: type[Contents]) -> Iterator[Path]:
    """What was being written, if its manifest is there, then what was being replaced."""
    for path in (*_siblings(folder, "writing"), *_siblings(folder, "old")):
        try:
            check_files(path, read_contents(path, contents))
        except CheckpointError:
            continue
        yield path


def _strangers(folder: Path, contents: type[Contents]) -> set[str]:
    """The files there that are no part of an earlier save of this kind."""
    if not folder.exists():
        return set()
    if not folder.is_dir():
        raise CheckpointError(f"cannot save into {folder}: it is a file; name a folder")
    names = {name for name in _all_files(folder) if not Path(name).name.startswith(".nfs")}
    if contents.FILE in names:
        try:
            names -= {contents.FILE, *(file.name for file in read_contents(folder, contents).files)}
            names -= _of_increments(folder, names, contents)
        except CheckpointError as error:
            raise CheckpointError(f"cannot save over what is there: {error}; name another folder") from None
    return names


def _keep(names: set[str], folder: Path, writing: Path) -> None:
    """The same files in the new folder, as links where the file system has them; new ones of a name come first."""
    for name in names:
        target = writing / name
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            os.link(folder / name, target, follow_symlinks=False)
        except FileExistsError:
            continue
        except OSError:  # no links there
            shutil.copy2(folder / name, target, follow_symlinks=False)


def _of_increments(folder: Path, names: set[str], contents: type[Contents]) -> set[str]:
    """Which of the files in a folder belong to increments on the save there."""
    found: set[str] = set()
    for inside in {name.partition("/")[0] for name in names}:
        if INCREMENT.fullmatch(inside):  # without a manifest it is none that could be kept: a load would look for it
            files = read_contents(folder / inside, contents).files
            found.update(f"{inside}/{name}" for name in (contents.FILE, *(file.name for file in files)))
    return found


def _all_files(folder: Path) -> set[str]:
    found: set[str] = set()
    for top, _, names in os.walk(folder):
        found.update(str((Path(top) / name).relative_to(folder)) for name in names)
    return found


def _discard(path: Path) -> None:
    """Delete a folder. It loses its name first, so that nobody takes what is left of it for a checkpoint.

    What cannot be deleted now, such as a file that another machine has open, is left to the next `begin`.
    """
    trash = path
    if kind := re.fullmatch(rf"(\..+)\.(writing|old)-{ID}", path.name):
        trash = path.with_name(f"{kind[1]}.trash-{secrets.token_hex(4)}")
        with suppress(FileNotFoundError):
            os.rename(path, trash)
    shutil.rmtree(trash, ignore_errors=True)


def _sibling(folder: Path, kind: str) -> Path:
    return folder.with_name(f".{folder.name}.{kind}-{secrets.token_hex(4)}")


def _siblings(folder: Path, *kinds: str) -> list[Path]:
    pattern = re.compile(rf"\.{re.escape(folder.name)}\.({'|'.join(kinds)})-{ID}")
    try:
        return [folder.with_name(name) for name in os.listdir(folder.parent) if pattern.fullmatch(name)]
    except FileNotFoundError:
        return []


def _real(folder: str | os.PathLike[str]) -> Path:
    """Without links, so that what is replaced is the folder and not a link to it."""
    path = Path(os.path.realpath(folder))
    if not path.name:
        raise CheckpointError(f"cannot save into {path}: name a folder inside it")
    return path


@contextmanager
def _trouble(what: str) -> Iterator[None]:
    """What the system says becomes a CheckpointError; one that is raised on purpose stays as it is."""
    try:
        yield
    except CheckpointError:
        raise
    except OSError as error:
        path = f" ({error.filename})" if error.filename else ""
        raise CheckpointError(f"{what}: {error.strerror or error}{path}") from error
