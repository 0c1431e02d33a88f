"""What scripts take from the old native module."""

from paddle._alias import alias

alias(
    __name__,
    {
        "fleet.static": "CPUPlace CUDAPinnedPlace CUDAPlace EOFException LoDTensor Scope",
        "fleet.imperative": "is_compiled_with_cuda",
        "fleet.static.var_types": "VarDesc",
    },
    renamed={"get_cuda_device_count": "torch.cuda:device_count"},
    refused={"get_all_op_names": "use fleet.static.registry.known", "ops": "use fluid.layers"},
)
