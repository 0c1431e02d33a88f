"""Files of this machine and of HDFS."""

from paddle._alias import alias

alias(
    __name__, {"fleet_programs.fs": "HDFSClient LocalFS"}, renamed={"ExecuteError": "fleet_programs.fs:FileSystemError"}
)
