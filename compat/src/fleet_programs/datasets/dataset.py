"""What both datasets are: files, a command that they go through, slots, and how many threads read."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, ClassVar

from fleet.checks import count_of, seconds_of
from fleet.data.columns.records import BySlot
from fleet.errors import NotReadyError, NotSupportedError, UsageError, UsageTypeError
from fleet.strategy.record import unknown
from fleet_programs.datasets.multislot import Format
from fleet_programs.datasets.use_var import Var, slots_of
from fleet_programs.datasets.whole_lines import as_ragged, whole_lines


class Dataset(ABC):
    """Files of MultiSlot text and the batches in them: `for batch in dataset`.

    Settings are made one by one (`set_batch_size`), or together (`init`, `update_settings`). A dataset reads exactly
    its file list: `fleet.util.get_file_shard` gives each worker its part.
    """

    _feed: ClassVar[str]
    """The one `data_feed_type` that this dataset is."""

    _settings: ClassVar[dict[str, str]] = {
        "batch_size": "set_batch_size",
        "thread_num": "set_thread",
        "use_var": "set_use_var",
        "pipe_command": "set_pipe_command",
        "pipe_timeout_s": "set_pipe_timeout",
        "queue_num": "set_queue_num",
        "input_type": "_set_input_type",
        "fs_name": "_set_fs_name",
        "fs_ugi": "_set_fs_ugi",
        "download_cmd": "_set_download_cmd",
        "data_feed_type": "_set_data_feed_type",
    }
    """What `update_settings` takes, and who takes it."""

    def __init__(self) -> None:
        self._batch_size = 1
        self._num_threads = 1
        self._num_queues: int | None = None
        self._files: list[str] | None = None
        self._format = Format(())
        self._has_batches = False

    def init(
        self,
        *,
        batch_size: int = 1,
        thread_num: int = 1,
        use_var: Sequence[Var] = (),
        pipe_command: str = "cat",
        input_type: int = 0,
        fs_name: str = "",
        fs_ugi: str = "",
        download_cmd: str = "cat",
        data_feed_type: str | None = None,
        queue_num: int = -1,
        pipe_timeout_s: float = 1800.0,
        **others: Any,
    ) -> None:
        """Make the settings together. What is left out gets its default; the file list stays.

        `others` are settings that `update_settings` takes besides; those keep what they have if they are left out.
        """
        given = {name: value for name, value in locals().items() if name not in ("self", "others")}
        given["data_feed_type"] = self._feed if data_feed_type is None else data_feed_type
        self.update_settings(**given, **others)

    def update_settings(self, **settings: Any) -> None:
        """Change some settings, by the names that `init` (and `_init_distributed_settings`) have for them."""
        for name in settings:
            if name not in self._settings:
                kind = type(self).__name__
                raise unknown(kind, name, self._settings, "setting", f"help(fleet.data.{kind}.init)")
        for name, value in settings.items():
            getattr(self, self._settings[name])(value)

    def set_batch_size(self, batch_size: int) -> None:
        """Records in a batch; the last one of all may have fewer."""
        self._batch_size = count_of("batch_size", batch_size)

    def set_thread(self, thread_num: int) -> None:
        """Threads that read, each a file at a time. With one, batches come in the order of the files."""
        self._num_threads = count_of("thread_num", thread_num)

    def set_filelist(self, filelist: Sequence[str | os.PathLike[str]]) -> None:
        """The files to read; an empty list, of a worker that got none, gives no batches."""
        given: object = filelist
        if isinstance(given, str | bytes) or not isinstance(given, Sequence):
            raise UsageTypeError(f"filelist must be a list of file names, got {type(given).__name__}")
        if odd := [name for name in given if not isinstance(name, str | os.PathLike)]:
            raise UsageTypeError(f"filelist must hold names as text, got {odd[0]!r} among them")
        self._files = [os.fspath(name) for name in given]

    def set_use_var(self, var_list: Sequence[Var]) -> None:
        """The variables whose values stand in each line, in this order."""
        self._format = replace(self._format, slots=slots_of(var_list))

    def set_pipe_command(self, pipe_command: str) -> None:
        """A shell command that turns a file into MultiSlot text; `cat`, the default, starts no process."""
        if not isinstance(pipe_command, str):
            raise UsageTypeError(f"pipe_command must be text, got {pipe_command!r}")
        if not pipe_command.strip():
            raise UsageError("pipe_command is empty; 'cat' reads files as they are")
        self._format = replace(self._format, command=pipe_command)

    def set_pipe_timeout(self, seconds: float) -> None:
        """How long a command may write nothing before it counts as stuck."""
        self._format = replace(self._format, timeout_s=seconds_of("pipe_timeout_s", seconds, above=0.0))

    def set_queue_num(self, queue_num: int) -> None:
        """Into how many parts `batches(worker=...)` divides the batches; -1: as many as threads that read."""
        self._num_queues = None if queue_num == -1 else count_of("queue_num", queue_num)

    _set_queue_num = set_queue_num  # as 2.0 spells it

    def set_hdfs_config(self, fs_name: str, fs_ugi: str) -> None:  # noqa: ARG002  the name is enough to refuse it
        """Refused: files are this machine's."""
        raise NotSupportedError(
            f"fs_name {fs_name!r}: a remote file system is not read; mount it, or list small files that name the "
            "remote ones and let pipe_command fetch them (xargs hdfs dfs -cat)"
        )

    def set_fea_eval(self, record_candidate_size: int, fea_eval: bool = True) -> None:  # noqa: ARG002
        """Refused, unless records are in memory."""
        raise NotSupportedError(f"{type(self).__name__} cannot evaluate features; use InMemoryDataset")

    def slots_shuffle(self, slots: Sequence[str]) -> None:  # noqa: ARG002
        """Refused, unless records are in memory."""
        raise NotSupportedError(f"{type(self).__name__} cannot shuffle slots; use InMemoryDataset")

    def batches(self, worker: int | None = None, num_workers: int | None = None) -> Iterator[BySlot]:
        """The batches; with `worker`, this one's part of them for the threads of one process that train side by side.

        The parts of all `num_workers` (default: `queue_num`, or `thread_num`) have each record once. Closing the
        iterator early ends the threads and commands behind it.
        """
        if self._has_batches and self._batch_size != 1:
            raise UsageError(
                f"batch_size is {self._batch_size}, and input_type 1 means that each line is a batch; set batch_size 1"
            )
        if worker is None:
            if num_workers not in (None, 1):
                raise UsageError(f"num_workers is {num_workers} without a worker; say which part is wanted")
            return self._given(self._part(0, 1))
        default = self._num_queues or self._num_threads
        num = default if num_workers is None else count_of("num_workers", num_workers)
        if worker not in range(num):
            raise UsageError(f"worker must be in 0..{num - 1}, got {worker!r}")
        return self._given(self._part(worker, num))

    def _given(self, batches: Iterator[BySlot]) -> Iterator[BySlot]:
        return whole_lines(batches, self._format.slots) if self._has_batches else batches

    def __iter__(self) -> Iterator[BySlot]:
        return self.batches()

    @abstractmethod
    def _part(self, worker: int, num_workers: int) -> Iterator[BySlot]:
        """One worker's batches; checks are made when it is called, not when it is first iterated."""

    def _paths(self) -> list[str]:
        if self._files is None:
            raise NotReadyError("the dataset has no files; call set_filelist() first")
        return self._files

    def _ready_format(self) -> Format:
        if not self._format.slots:
            raise NotReadyError("the dataset does not know its slots; call set_use_var() or init(use_var=...) first")
        return replace(self._format, slots=as_ragged(self._format.slots)) if self._has_batches else self._format

    def _set_input_type(self, input_type: int) -> None:
        if input_type not in (0, 1):
            raise UsageError(f"input_type must be 0, a sample in a line, or 1, a batch in a line, got {input_type!r}")
        self._has_batches = input_type == 1

    def _set_fs_name(self, fs_name: str) -> None:
        if fs_name:
            self.set_hdfs_config(fs_name, "")

    def _set_fs_ugi(self, fs_ugi: str) -> None:
        if fs_ugi:
            raise NotSupportedError("fs_ugi names a user of a remote file system, which is not read; leave it empty")

    def _set_download_cmd(self, download_cmd: str) -> None:
        if download_cmd != "cat":
            raise NotSupportedError(f"download_cmd {download_cmd!r} is not run; put it in front of pipe_command")

    def _set_data_feed_type(self, data_feed_type: str) -> None:
        if data_feed_type != self._feed:
            raise NotSupportedError(
                f"{type(self).__name__} reads {self._feed}, not {data_feed_type!r}; leave data_feed_type out"
            )
