"""Where headers and libraries are: there are none to build against."""

from paddle._alias import alias

_REASON = (
    "there is no C++ library here to build against; operators are written in Python: fleet_programs.definition.registry"
)

alias(__name__, refused={"get_include": _REASON, "get_lib": _REASON})
