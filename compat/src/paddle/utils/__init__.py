"""Tools for scripts and libraries."""

from paddle._alias import alias

alias(
    __name__,
    {"fleet_paddle.tools.require": "require_version", "fleet_paddle.tools.helpers": "deprecated try_import"},
    renamed={"run_check": "fleet_tools.selfcheck:main"},
    parts="cpp_extension download plot profiler unique_name",
    refused={
        "OpLastCheckpointChecker": "operators have no versions here; print(program) shows each with its attributes",
        "dump_config": "a program is text: print(program)",
    },
)
