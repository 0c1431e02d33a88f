"""Files of this machine."""

from paddle._alias import alias

alias(__name__, {"fleet.data.fs": "LocalFS"}, renamed={"FS": "fleet.data.fs:LocalFS"})
