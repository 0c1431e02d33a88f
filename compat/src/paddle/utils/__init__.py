"""Tools for scripts and libraries."""

from paddle._alias import alias

alias(
    __name__,
    {"fleet_paddle.require": "require_version", "fleet_paddle.tools": "deprecated try_import"},
    renamed={"run_check": "fleet.selfcheck:main"},
    parts="download plot unique_name",
    refused={
        "OpLastCheckpointChecker": "operators have no versions here; print(program) shows each with its attributes",
        "cpp_extension": "write the operator in Python: fleet.static.registry.register, or torch.utils.cpp_extension",
        "dump_config": "a program is text: print(program)",
        "profiler": "use paddle.fluid.profiler",
    },
)
