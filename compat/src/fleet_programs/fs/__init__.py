"""Files of this machine and of HDFS, behind one set of calls."""

from __future__ import annotations

from fleet_programs.fs.hdfs import HDFSClient
from fleet_programs.fs.local import FileSystemError, LocalFS

__all__ = ["FileSystemError", "HDFSClient", "LocalFS"]
