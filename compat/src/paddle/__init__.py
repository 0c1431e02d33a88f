"""The names of PaddlePaddle, which `python -m paddle._reference` lists; what they stand for is in `fleet_paddle`."""

import fleet_paddle  # noqa: F401 - gives variables of programs the methods that scripts call
from paddle._alias import alias, refuse_real, watch_missing

refuse_real(("paddlepaddle", "paddlepaddle-gpu"))
watch_missing()

__version__ = "2.0.0"
"""The version whose names these are; Fleet's own is fleet.__version__."""

alias(
    __name__,
    {
        "fleet_paddle.batches.reader": "batch",
        "fleet_paddle.flags": "get_flags set_flags",
        "fleet_paddle.mode": "disable_static enable_static in_dynamic_mode seed",
        "fleet_paddle.attr": "ParamAttr",
        "fleet_paddle.hapi.flops": "flops",
        "fleet_paddle.hapi.model": "Model",
        "fleet_paddle.hapi.summary": "summary",
        "fleet_programs": "CPUPlace CUDAPinnedPlace CUDAPlace",
        "fleet_paddle.programs.variables.var_types": "bfloat16 bool float16 float32 float64 int16 int32 int64 int8 "
        "uint8",
        "fleet_paddle.imperative": "DataParallel Tensor abs acos acosh add add_n addmm all allclose angle any arange "
        "argmax argmin "
        "argsort as_complex as_real asin asinh assign atan atan2 atanh bernoulli bincount bitwise_and "
        "bitwise_not bitwise_or bitwise_xor bmm broadcast_shape broadcast_to cast ceil cholesky chunk "
        "clip clone concat conj cos cosh create_parameter crop cross cumprod cumsum deg2rad diag "
        "diagflat diagonal diff digamma dist divide dot empty empty_like equal equal_all erf erfinv exp "
        "expand expand_as expm1 eye flatten flatten_ flip floor floor_divide fmax fmin full full_like "
        "gather gather_nd gcd get_default_dtype get_device grad greater_equal greater_than histogram "
        "imag increment index_sample index_select inner inverse is_compiled_with_cuda "
        "is_compiled_with_custom_device is_compiled_with_npu is_compiled_with_rocm is_compiled_with_xpu "
        "is_complex is_empty is_floating_point is_grad_enabled is_integer is_tensor isclose isfinite "
        "isinf isnan kron kthvalue lcm lerp less_equal less_than lgamma linspace load log log10 log1p "
        "log2 logical_and logical_not logical_or logical_xor logsumexp masked_select matmul max maximum "
        "mean median meshgrid min minimum mm mod mode moveaxis multinomial multiplex multiply mv neg "
        "no_grad nonzero norm normal not_equal numel ones ones_like outer pow prod put_along_axis "
        "quantile rad2deg rand randint randn randperm rank real reciprocal repeat_interleave reshape "
        "reshape_ roll rot90 round rsqrt save scale scatter scatter_ scatter_nd scatter_nd_add "
        "searchsorted set_default_dtype set_device set_grad_enabled shape shard_index sign sin sinh "
        "slice sort split sqrt square squeeze squeeze_ stack standard_normal stanh std strided_slice "
        "subtract sum t take_along_axis tan tanh tanh_ tensordot tile to_tensor tolist topk trace "
        "transpose tril triu trunc unbind uniform unique unsqueeze unsqueeze_ unstack var where zeros "
        "zeros_like",
    },
    renamed={
        "einsum": "fleet_paddle.imperative.functions.several:einsum",
        "VarBase": "fleet_paddle.imperative:Tensor",
        "disable_dygraph": "fleet_paddle.mode:enable_static",
        "enable_dygraph": "fleet_paddle.mode:disable_static",
        "get_cuda_rng_state": "torch.cuda:get_rng_state_all",
        "get_cudnn_version": "torch.backends.cudnn:version",
        "in_dygraph_mode": "fleet_paddle.mode:in_dynamic_mode",
        "remainder": "fleet_paddle.imperative:mod",
        "reverse": "fleet_paddle.imperative:flip",
        "_C_ops": "fleet_paddle.imperative.native_ops",
        "floor_mod": "fleet_paddle.imperative:mod",
        "set_cuda_rng_state": "torch.cuda:set_rng_state_all",
        "set_printoptions": "torch:set_printoptions",
    },
    parts="amp autograd callbacks compat dataset device distributed distribution fft fluid framework hapi incubate "
    "inference io jit linalg metric nn optimizer reader regularizer static sysconfig tensor text utils v2 version "
    "vision",
    refused={
        "onnx": "layers are torch modules: torch.onnx.export",
    },
)
