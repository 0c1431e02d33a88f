"""Files of HDFS."""

from paddle._alias import alias

alias(__name__, {"fleet_programs.fs": "HDFSClient"}, renamed={"ExecuteError": "fleet_programs.fs:FileSystemError"})
