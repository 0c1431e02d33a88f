"""Operators in C++: libraries import these names, and a call is refused."""

from paddle._alias import alias

alias(
    __name__,
    {"fleet_paddle.tools.extension": "BuildExtension CUDAExtension CppExtension load setup"},
    renamed={"load_op_meta_info_and_register_op": "fleet_paddle.tools.extension:load"},
    parts="cpp_extension extension_utils",
)
