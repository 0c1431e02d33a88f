"""`HDFSClient`: files of HDFS, through the command `hadoop fs` of an installation of Hadoop."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Mapping
from os import PathLike
from pathlib import Path, PurePosixPath

from fleet.errors import DeadlineError, UsageError
from fleet_programs.fs.local import FileSystemError

ATTEMPTS = 3
"""How often a command is tried; a cluster that is restarted refuses some."""


class HDFSClient:
    """Files of HDFS. `hadoop_home` has `bin/hadoop`; `configs` are its settings, such as fs.default.name.

    A command that takes longer than `time_out` milliseconds is ended; `sleep_inter` milliseconds lie between attempts.
    """

    def __init__(
        self,
        hadoop_home: str | PathLike[str],
        configs: Mapping[str, str] | None = None,
        time_out: int = 5 * 60 * 1000,
        sleep_inter: int = 1000,
    ) -> None:
        command = Path(hadoop_home) / "bin" / "hadoop"
        if not command.is_file():
            raise UsageError(
                f"HDFSClient: there is no {command}; give Hadoop's folder, or mount the file system and use LocalFS"
            )
        if time_out <= 0 or sleep_inter < 0:
            raise UsageError(f"HDFSClient: time_out must be > 0 and sleep_inter >= 0, got {time_out}, {sleep_inter}")
        settings = [f"-D{name}={value}" for name, value in (configs or {}).items()]
        self._command = [str(command), "fs", *settings]
        self._limit_s = time_out / 1000
        self._pause_s = sleep_inter / 1000

    def need_upload_download(self) -> bool:
        """Whether files must be copied before they can be opened."""
        return True

    def ls_dir(self, fs_path: str) -> tuple[list[str], list[str]]:
        """The names of the folders and of the files in a folder; none if it is not there."""
        if not self.is_exist(fs_path):
            return [], []
        rows = [line.split(None, 7) for line in self._run("-ls", fs_path).splitlines()]
        named = [(row[0].startswith("d"), PurePosixPath(row[7]).name) for row in rows if len(row) == 8]
        return [name for is_dir, name in named if is_dir], [name for is_dir, name in named if not is_dir]

    def list_dirs(self, fs_path: str) -> list[str]:
        """The names of the folders in a folder."""
        return self.ls_dir(fs_path)[0]

    def is_exist(self, fs_path: str) -> bool:
        """Whether there is a file or folder of this name."""
        return self._test("-e", fs_path)

    def is_dir(self, fs_path: str) -> bool:
        """Whether the path is a folder."""
        return self._test("-d", fs_path)

    def is_file(self, fs_path: str) -> bool:
        """Whether the path is there and is not a folder."""
        return self.is_exist(fs_path) and not self.is_dir(fs_path)

    def upload(self, local_path: str | PathLike[str], fs_path: str) -> None:
        """Copy a file or a folder of this machine there."""
        if not Path(local_path).exists():
            raise FileSystemError(f"upload: {local_path} is not there")
        self._run("-put", str(local_path), fs_path)

    def download(self, fs_path: str, local_path: str | PathLike[str]) -> None:
        """Copy a file or a folder here."""
        self._must_exist("download", fs_path)
        self._run("-get", fs_path, str(local_path))

    def mkdirs(self, fs_path: str) -> None:
        """Make a folder and those above it; one that is there is left alone."""
        self._run("-mkdir", "-p", fs_path)

    def touch(self, fs_path: str, exist_ok: bool = True) -> None:
        """Make an empty file."""
        if self.is_exist(fs_path):
            if not exist_ok:
                raise FileSystemError(f"touch: {fs_path} is there already; give exist_ok=True to leave it")
            return
        self._run("-touchz", fs_path)

    def mv(self, fs_src_path: str, fs_dst_path: str, overwrite: bool = False, test_exists: bool = True) -> None:
        """Give a file or folder another name; `overwrite` deletes what has it already."""
        if test_exists:
            self._must_exist("mv", fs_src_path)
            if self.is_exist(fs_dst_path) and not overwrite:
                raise FileSystemError(f"mv: {fs_dst_path} is there already; give overwrite=True to replace it")
        if overwrite:
            self.delete(fs_dst_path)
        self._run("-mv", fs_src_path, fs_dst_path)

    def delete(self, fs_path: str) -> None:
        """Delete a file, or a folder with all in it; nothing happens if it is not there."""
        if self.is_exist(fs_path):
            self._run("-rm", "-r", fs_path)

    def cat(self, fs_path: str) -> str:
        """The text of a file."""
        self._must_exist("cat", fs_path)
        return self._run("-cat", fs_path)

    def _must_exist(self, what: str, fs_path: str) -> None:
        if not self.is_exist(fs_path):
            raise FileSystemError(f"{what}: {fs_path} is not there")

    def _test(self, flag: str, fs_path: str) -> bool:
        return self._once("-test", flag, fs_path).returncode == 0

    def _run(self, *arguments: str) -> str:
        for attempt in range(ATTEMPTS):
            done = self._once(*arguments)
            if done.returncode == 0:
                return done.stdout
            if attempt < ATTEMPTS - 1:
                time.sleep(self._pause_s)
        reason = " ".join(done.stderr.split())[-300:]
        raise FileSystemError(f"hadoop fs {' '.join(arguments)} failed with code {done.returncode}: {reason}")

    def _once(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        try:
            return subprocess.run(
                [*self._command, *arguments], capture_output=True, text=True, timeout=self._limit_s, check=False
            )
        except subprocess.TimeoutExpired:
            raise DeadlineError(
                f"hadoop fs {' '.join(arguments)} took longer than {self._limit_s:g} s; give a larger time_out"
            ) from None
        except OSError as error:
            raise FileSystemError(f"{self._command[0]} cannot be run: {error.strerror or error}") from error
