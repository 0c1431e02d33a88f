"""`fleet` as scripts of other versions call it: the one Fleet object, and what it had besides."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import Any

from fleet.api import fleet as shared
from fleet.errors import NotSupportedError


class OlderFleet:
    """The shared Fleet object under its methods of version 1.x."""

    def split_files(self, files: Sequence[object]) -> list[str]:
        """This worker's files; see `fleet.util.get_file_shard`."""
        return shared.util.get_file_shard(files)

    def __getattr__(self, name: str) -> Any:
        return getattr(shared, name)

    def __dir__(self) -> list[str]:
        return sorted({"split_files", *dir(shared)})


fleet = OlderFleet()


def save_persistables(
    executor: Any, dirname: str | PathLike[str], main_program: Any = None, mode: int = 0
) -> Path | None:
    """Write a checkpoint; `mode` 0 is all of it, and the only one there is."""
    if mode != 0:
        raise NotSupportedError(
            f"save_persistables: mode must be 0, got {mode}; use fleet.shrink() or fleet.save_inference_model()"
        )
    return shared.save_persistables(executor, dirname, main_program)


def init_server(dirname: str | PathLike[str] | None = None, var_names: Sequence[str] | None = None) -> None:
    """Prepare this server; with `dirname` it begins with that checkpoint."""
    if var_names is not None:
        raise NotSupportedError("init_server: var_names must be left out; a checkpoint is loaded as a whole")
    shared.init_server(dirname)
