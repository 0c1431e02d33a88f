"""The names of PaddlePaddle 2.0 and before, as aliases of Fleet. See docs/paddle.md for what there is."""

from paddle._alias import alias, refuse_real, watch_missing

refuse_real(("paddlepaddle", "paddlepaddle-gpu"))
watch_missing()

__version__ = "2.0.0"
"""The version whose names these are; Fleet's own is fleet.__version__."""

alias(
    __name__,
    {
        "fleet.data.reader": "batch",
        "fleet.either.mode": "disable_static enable_static in_dynamic_mode seed",
        "fleet.static": "CPUPlace CUDAPinnedPlace CUDAPlace ParamAttr",
        "fleet.either.tensor": "DataParallel Tensor abs add all any arange argmax argmin argsort bmm cast ceil chunk "
        "clip concat cos create_parameter cumsum diag divide dot empty equal equal_all exp expand eye flatten floor "
        "floor_divide full full_like gather get_default_dtype get_device grad greater_equal greater_than "
        "is_compiled_with_cuda isfinite isinf isnan less_equal less_than linspace load log log1p logical_and "
        "logical_not logical_or logical_xor logsumexp masked_select matmul max maximum mean min minimum mm mod "
        "multiply no_grad norm normal not_equal numel ones ones_like pow prod rand randint randn randperm reciprocal "
        "reshape round rsqrt save scale set_default_dtype set_device set_grad_enabled sign sin sort split sqrt square "
        "squeeze stack standard_normal std subtract sum t tanh tile to_tensor topk transpose tril triu unbind uniform "
        "unique unsqueeze var where zeros zeros_like",
    },
    renamed={
        "in_dygraph_mode": "fleet.either.mode:in_dynamic_mode",
        "remainder": "fleet.either.tensor:mod",
        "floor_mod": "fleet.either.tensor:mod",
    },
    parts="dataset device distributed fluid io metric nn optimizer reader regularizer static v2",
    refused={
        "Model": "write the loop: loss.backward(), optimizer.step(), optimizer.clear_grad()",
        "amp": "use strategy.amp = True with fleet.distributed_model",
        "flops": "use torch.utils.flop_counter",
        "get_flags": "settings are arguments and strategy fields: docs/strategy.md",
        "hapi": "write the loop: loss.backward(), optimizer.step(), optimizer.clear_grad()",
        "inference": "use paddle.static.load_inference_model",
        "jit": "layers are torch modules: torch.compile(layer)",
        "onnx": "layers are torch modules: torch.onnx.export",
        "set_flags": "settings are arguments and strategy fields: docs/strategy.md",
        "summary": "print(layer)",
        "text": "use paddle.dataset",
        "utils": "fleetrun --selfcheck checks a machine",
        "vision": "layers are torch modules: torchvision's work as they are",
    },
)
