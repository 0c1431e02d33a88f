"""`fleet.Checkpoint`: saves and loads the state of a collective training run."""

from __future__ import annotations

import atexit
import contextlib
import itertools
import json
import os
import secrets
import zlib
from collections.abc import Mapping, Sequence
from typing import Self

import torch.distributed as dist
from torch import nn
from torch.optim import Optimizer

from fleet.checkpoint import StepFolders
from fleet.collective.agree import world
from fleet.collective.model import DistributedModel
from fleet.errors import CheckpointError, FleetError, NotSupportedError, UsageError, UsageTypeError
from fleet.observe.ending import note_the_end
from fleet.runtime.training.reading import CheckpointSource
from fleet.runtime.training.restore import Restore, together
from fleet.runtime.training.run_parts import RunParts, Stateful
from fleet.runtime.training.save_store import SaveStore
from fleet.runtime.training.writer import Destination, Writer


class Checkpoint:
    """The checkpoints of a run, FOLDER/step-00000100 and so on, on a file system that all workers share.

        checkpoint = fleet.Checkpoint("checkpoints", model=model, optimizer=optimizer, scheduler=scheduler, data=shard)
        for step in range(checkpoint.load(), num_steps):
            ...
            if step % 100 == 99:
                checkpoint.save(step + 1)       # goes on as soon as the state is copied
        checkpoint.close()                      # returns when the last one is on the disk

    Every worker makes it, with the same arguments, and calls its methods at the same steps. `scheduler` is one
    learning-rate scheduler or a list of them, `data` the position in the data, `extras` anything else by name; all need
    `state_dict` and `load_state_dict`. Of schedulers and extras, worker 0's state is saved for all.

    `keep`: how many of the newest stay. `timeout_s`: how long nobody may have written a file before a save is given up.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        *,
        model: nn.Module,
        optimizer: Optimizer,
        scheduler: Stateful | Sequence[Stateful] | None = None,
        data: Stateful | None = None,
        extras: Mapping[str, Stateful] | None = None,
        keep: int = 2,
        timeout_s: float = 300.0,
    ) -> None:
        _refuse_servers(model, optimizer)
        if type(keep) is not int or keep < 1:
            raise UsageError(f"keep must be the number of checkpoints to keep, at least 1, got {keep!r}")
        if not timeout_s > 0:
            raise UsageError(f"timeout_s must be a number of seconds > 0, got {timeout_s!r}")
        assert isinstance(model, DistributedModel)
        workers = world()
        schedulers = () if scheduler is None else scheduler if isinstance(scheduler, list | tuple) else (scheduler,)
        self._parts = RunParts(
            model, optimizer, tuple(schedulers), data, dict(extras or {}), workers.rank, workers.size
        )
        self._steps = StepFolders(folder)
        store = None
        if workers.size > 1:
            name = self._agree([str(self._steps.folder), keep, *self._parts.names()])
            store = SaveStore(dist.distributed_c10d._get_default_store(), name)
        self._to = Destination(self._steps, keep, workers.rank, workers.size, store, timeout_s)
        self._num_saves = 0
        self._writer: Writer | None = None

    def _agree(self, settings: list[object]) -> str:
        """UsageError on every worker if one has other settings; a name for this run of checkpoints."""
        told = [
            json.loads(text) for text in world().gather_bytes(json.dumps([settings, secrets.token_hex(8)]).encode())
        ]
        for worker, (others, _) in enumerate(told):
            for mine, theirs in itertools.zip_longest(told[0][0], others, fillvalue="nothing"):
                if mine != theirs:
                    raise UsageError(
                        f"fleet.Checkpoint: worker {worker} has {theirs!r} where worker 0 has {mine!r}; "
                        "give the same folder and parts on every worker"
                    )
        return str(told[0][1])

    @property
    def folder(self) -> str:
        """Where the checkpoints are."""
        return str(self._steps.folder)

    def save(self, step: int) -> None:
        """Copy the state, then write it in the background; the save before it is waited for first.

        What `step` counts is up to you: `load` gives it back. CheckpointError if the save before this one failed.
        """
        if type(step) is not int or not 0 <= step < 10**18:
            raise UsageError(f"save takes the number of steps done, got {step!r}")
        # Before the wait, which may fail on one worker alone: the others must know the next save by the same number.
        number, self._num_saves = self._num_saves, self._num_saves + 1
        self.wait()
        try:
            captured = self._parts.capture(step)
        except Exception as error:
            if self._to.store is not None:  # the others must not wait for this worker
                self._start(Writer(self._to, number, step, str(error) or repr(error)))
            raise
        self._start(Writer(self._to, number, step, captured))

    def _start(self, writer: Writer) -> None:
        self._writer = writer
        writer.start()
        # Before the process group is left, which was registered earlier.
        atexit.register(self._finish)
        note_the_end()

    def wait(self) -> None:
        """Return when the last save is on the disk; CheckpointError on every worker if it could not be written."""
        atexit.unregister(self._finish)
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.finish()

    def _finish(self) -> None:
        with contextlib.suppress(FleetError):  # logged by the thread; an exception here would change nothing
            self.wait()

    def close(self) -> None:
        """`wait`; also done when the script ends, where an error can only be logged."""
        self.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def load(self, step: int | None = None) -> int:
        """Restore the newest complete checkpoint, or that of `step`, on every worker; its step, or 0 if there is none.

        Nothing is changed if it does not fit or is damaged: CheckpointError on every worker. As many workers as had
        saved it go on with their own random numbers; one that was not there gets a stream derived from worker 0's.
        """
        self.wait()
        workers = world()
        chosen = together(workers, lambda: self._choose(step) if workers.rank == 0 else None)
        chosen = json.loads(workers.gather_bytes(json.dumps(chosen).encode())[0])
        if chosen is None:
            return 0
        source, crc = together(workers, lambda: self._open(chosen))
        if len(set(workers.gather_bytes(crc))) > 1:
            raise CheckpointError(f"workers see different files in {source.where}; the file system must be shared")
        Restore(self._parts, source).run(workers)
        return int(chosen)

    def _choose(self, step: int | None) -> int | None:
        found = self._steps.complete()
        if step is None:
            return found[0] if found else None
        if step not in found:
            there = ", ".join(map(str, found)) or "none"
            raise CheckpointError(f"{self.folder} has no complete checkpoint of step {step!r}; it has {there}")
        return step

    def _open(self, step: int) -> tuple[CheckpointSource, bytes]:
        try:
            where, manifest = self._steps.read(step)
        except CheckpointError as error:
            if self._to.worker == 0 or self._steps.path(step).exists():
                raise
            raise CheckpointError(
                f"{self.folder} is not the folder that worker 0 sees: step {step} is not there; "
                "give a folder on a file system that all machines share"
            ) from error
        return CheckpointSource(where, manifest), str(zlib.crc32(manifest.to_text().encode())).encode()


def _refuse_servers(model: object, optimizer: object) -> None:
    if isinstance(model, DistributedModel):
        return
    from fleet.nn.sparse import SparseModule
    from fleet.ps.optimizer import ServerOptimizer

    is_served = isinstance(optimizer, ServerOptimizer) or (
        isinstance(model, nn.Module) and any(isinstance(one, SparseModule) for one in model.modules())
    )
    if is_served:
        raise NotSupportedError(
            "fleet.Checkpoint is for collective jobs; where servers hold the state, use fleet.save_persistables() and "
            "fleet.load_model()"
        )
    raise UsageTypeError(f"model must be what fleet.distributed_model() returned, got a {type(model).__name__}")
