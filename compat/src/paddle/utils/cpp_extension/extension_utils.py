"""Operators in C++: libraries import these names, and a call is refused."""

from paddle._alias import alias

alias(
    __name__,
    renamed={
        "_import_module_from_library": "fleet_paddle.tools.extension:load",
        "_jit_compile": "fleet_paddle.tools.extension:load",
        "load_op_meta_info_and_register_op": "fleet_paddle.tools.extension:load",
    },
)
