"""Files of this machine."""

from paddle._alias import alias

alias(__name__, {"fleet_programs.fs": "LocalFS"}, renamed={"FS": "fleet_programs.fs:LocalFS"})
