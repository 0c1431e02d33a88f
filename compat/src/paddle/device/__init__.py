"""Where tensors are."""

from paddle._alias import alias

alias(
    __name__,
    {
        "fleet_paddle.imperative": "get_device is_compiled_with_cuda is_compiled_with_custom_device "
        "is_compiled_with_npu is_compiled_with_rocm is_compiled_with_xpu set_device",
    },
    renamed={"get_cudnn_version": "torch.backends.cudnn:version"},
    parts="cuda",
)
