"""Files of HDFS."""

from paddle._alias import alias

alias(__name__, {"fleet.data.fs": "HDFSClient"}, renamed={"ExecuteError": "fleet.data.fs:FileSystemError"})
