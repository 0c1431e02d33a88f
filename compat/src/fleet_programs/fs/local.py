"""`LocalFS`: files of this machine, under the calls that `HDFSClient` has for those of HDFS."""

from __future__ import annotations

import shutil
from os import PathLike
from pathlib import Path

from fleet.errors import FleetError

Name = str | PathLike[str]


class FileSystemError(FleetError, OSError):
    """A file that is not there or is in the way, or a command of a file system that failed."""


class LocalFS:
    """Files of this machine."""

    def need_upload_download(self) -> bool:
        """Whether files must be copied before they can be opened."""
        return False

    def ls_dir(self, fs_path: Name) -> tuple[list[str], list[str]]:
        """The names of the folders and of the files in a folder; none if it is not there."""
        folder = Path(fs_path)
        inside = sorted(folder.iterdir()) if folder.is_dir() else []
        return [one.name for one in inside if one.is_dir()], [one.name for one in inside if not one.is_dir()]

    def list_dirs(self, fs_path: Name) -> list[str]:
        """The names of the folders in a folder."""
        return self.ls_dir(fs_path)[0]

    def is_file(self, fs_path: Name) -> bool:
        """Whether the path is there and is not a folder."""
        return Path(fs_path).is_file()

    def is_dir(self, fs_path: Name) -> bool:
        """Whether the path is a folder."""
        return Path(fs_path).is_dir()

    def is_exist(self, fs_path: Name) -> bool:
        """Whether there is a file or folder of this name."""
        return Path(fs_path).exists()

    def mkdirs(self, fs_path: Name) -> None:
        """Make a folder and those above it; one that is there is left alone."""
        if Path(fs_path).is_file():
            raise FileSystemError(f"mkdirs: {fs_path} is a file; delete it, or choose another name")
        Path(fs_path).mkdir(parents=True, exist_ok=True)

    def touch(self, fs_path: Name, exist_ok: bool = True) -> None:
        """Make an empty file."""
        if not exist_ok and Path(fs_path).exists():
            raise FileSystemError(f"touch: {fs_path} is there already; give exist_ok=True to leave it")
        Path(fs_path).touch()

    def mv(self, src_path: Name, dst_path: Name, overwrite: bool = False, test_exists: bool = False) -> None:
        """Give a file or folder another name; `overwrite` deletes what has it already."""
        del test_exists  # whether both are as they must be is always looked at
        if not Path(src_path).exists():
            raise FileSystemError(f"mv: {src_path} is not there")
        if Path(dst_path).exists():
            if not overwrite:
                raise FileSystemError(f"mv: {dst_path} is there already; give overwrite=True to replace it")
            self.delete(dst_path)
        shutil.move(src_path, dst_path)

    def rename(self, fs_src_path: Name, fs_dst_path: Name) -> None:
        """`mv` that replaces nothing."""
        self.mv(fs_src_path, fs_dst_path)

    def delete(self, fs_path: Name) -> None:
        """Delete a file, or a folder with all in it; nothing happens if it is not there."""
        path = Path(fs_path)
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)

    def cat(self, fs_path: Name) -> str:
        """The text of a file."""
        return Path(fs_path).read_text(encoding="utf-8")
