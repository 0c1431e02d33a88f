"""Files of this machine and of HDFS."""

from paddle._alias import alias

alias(__name__, {"fleet.data.fs": "HDFSClient LocalFS"}, renamed={"ExecuteError": "fleet.data.fs:FileSystemError"})
