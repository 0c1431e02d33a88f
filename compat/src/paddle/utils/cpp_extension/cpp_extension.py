"""Operators in C++: libraries import these names, and a call is refused."""

from paddle._alias import alias

alias(
    __name__,
    {"fleet_paddle.tools.extension": "BuildExtension CUDAExtension CppExtension load setup"},
    renamed={"CUDA_HOME": "torch.utils.cpp_extension:CUDA_HOME"},
)
