"""The checkpoints of a training run: FOLDER/step-00000100, FOLDER/step-00000200, ..., of which the newest are kept."""

import logging
import os
import re
from pathlib import Path
from typing import Literal, TypeAlias

from fleet.checkpoint.folders.contents import Contents
from fleet.checkpoint.folders.folder import begin, commit, find, read_contents, remove, tidy
from fleet.checkpoint.runs.training import TrainingManifest
from fleet.errors import CheckpointError

Best: TypeAlias = Literal["max", "min"]
"""Which metric is the best: the highest, or the lowest."""

log = logging.getLogger(__name__)

# The folder of a step, or a hidden sibling of it that a crash may have left.
_NAME = re.compile(r"step-(\d{8,18})|\.step-(\d{8,18})\.(?:writing|old|trash)-[0-9a-f]{8}")


class StepFolders:
    """A folder of checkpoints. Other things may lie in it too; they are never touched."""

    def __init__(self, folder: str | os.PathLike[str], contents: type[Contents] = TrainingManifest) -> None:
        """`contents`: of collective jobs the training manifest itself, of jobs with servers theirs, which has it."""
        self.folder = Path(os.path.realpath(folder))
        self._contents = contents

    def path(self, step: int) -> Path:
        """The folder of a step's checkpoint, whether it is there or not."""
        return self.folder / f"step-{step:08}"

    def complete(self) -> list[int]:
        """The steps of which there is a complete checkpoint, the newest first."""
        return [step for step in self._mentioned() if self._is_complete(step)]

    def read(self, step: int) -> tuple[Path, TrainingManifest]:
        """Where a step's files are, and its manifest."""
        where = find(self.path(step), self._contents)
        return where, TrainingManifest.inside(read_contents(where, self._contents), str(where))

    def refuse_headless(self) -> None:
        """CheckpointError for a step, newer than all complete ones, that has files and no manifest.

        No save leaves such a folder behind, and a load would go on from an older step without a word.
        """
        newest = max(self.complete(), default=-1)
        for step in self._mentioned():
            if step > newest and (path := self.path(step)).is_dir() and any(path.iterdir()):
                raise CheckpointError(
                    f"{path} is damaged: it has files of a checkpoint, but no {self._contents.FILE}; delete it to go "
                    "on from the one before"
                )

    def best(self, best: Best, *, skip_damaged: bool = False) -> int | None:
        """The step with the highest, or lowest, metric, of equal ones the first; None if nobody has given one.

        CheckpointError for a manifest that cannot be read, unless such a step is to be left out. A step that another
        worker deletes meanwhile does not count.
        """
        metrics = {}
        for step in self.complete():
            try:
                metric = self.read(step)[1].metric
            except CheckpointError:
                if not skip_damaged and self._is_complete(step):
                    raise
                continue
            if metric is not None:
                metrics[step] = metric
        sign = -1.0 if best == "max" else 1.0
        return min(metrics, key=lambda step: (sign * metrics[step], step), default=None)

    def begin(self, step: int) -> Path:
        """Make the hidden folder that a save of `step` writes to, after clearing up behind saves that did not end.

        CheckpointError if there is a newer checkpoint: a later load would take that one for the end of this run.
        """
        for mentioned in self._mentioned():
            if mentioned != step:
                tidy(self.path(mentioned), self._contents)
        if (newest := max(self.complete(), default=step)) > step:
            raise CheckpointError(
                f"cannot save step {step} into {self.folder}: it has step {newest}, which a load would prefer; "
                "load that one, delete it, or name another folder"
            )
        return begin(self.path(step), self._contents)

    def commit(self, writing: Path, step: int, contents: Contents) -> Path:
        """Put what was written in its place, as the checkpoint of a step; returns its folder."""
        return commit(writing, self.path(step), contents)

    def prune(self, keep: int, best: Best | None = None) -> None:
        """Delete all but the newest whole ones with their increments, and the best with what it builds on.

        One that holds files of somebody else stays, with a warning.
        """
        steps = self.complete()
        if len(steps) <= keep:
            return
        parents = {step: self._parent_of(step) for step in steps}
        bases = [step for step in steps if parents[step] is None]
        kept = {step for step in steps if len(bases) <= keep or step >= bases[keep - 1]}
        if best is not None and len(kept) < len(steps) and (spared := self.best(best, skip_damaged=True)) is not None:
            kept.add(spared)
        for step in list(kept):
            needed = parents[step]
            while needed is not None:
                kept.add(needed)
                needed = parents.get(needed)
        for step in steps:  # increments before what they build on
            if step in kept:
                continue
            try:
                remove(self.path(step), self._contents)
            except CheckpointError as error:
                log.warning("an old checkpoint stays: %s", error)

    def _parent_of(self, step: int) -> int | None:
        """The step that an increment builds on; None for a whole one."""
        try:
            where = find(self.path(step), self._contents)
            parent = getattr(read_contents(where, self._contents), "parent", None)
        except CheckpointError:  # it is damaged
            return None
        found = None if parent is None else _NAME.fullmatch(Path(parent.folder).name)
        return None if found is None else int(found[1] or found[2])

    def _mentioned(self) -> list[int]:
        try:
            names = os.listdir(self.folder)
        except FileNotFoundError:
            return []
        except NotADirectoryError:
            raise CheckpointError(f"{self.folder} is a file; give fleet.Checkpoint a folder for its steps") from None
        except OSError as error:
            raise CheckpointError(f"cannot look into {self.folder}: {error.strerror or error}") from error
        if self._contents.FILE in names:
            raise CheckpointError(
                f"{self.folder} is one checkpoint and no folder for the steps of a run; name another folder, and load "
                "this one with fleet.load_model()"
            )
        found = filter(None, map(_NAME.fullmatch, names))
        return sorted({int(match[1] or match[2]) for match in found}, reverse=True)

    def _is_complete(self, step: int) -> bool:
        try:
            find(self.path(step), self._contents)
        except CheckpointError:
            return False
        return True
