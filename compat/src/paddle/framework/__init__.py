"""What 2.0 keeps behind its own names: parameters, places, types, gradients, files."""

from paddle._alias import alias

alias(
    __name__,
    {
        "fleet_programs": "CPUPlace CUDAPinnedPlace CUDAPlace Program Variable default_main_program "
        "default_startup_program program_guard",
        "fleet_paddle.attr": "ParamAttr",
        "fleet_paddle.imperative": "DataParallel create_parameter get_default_dtype grad is_grad_enabled load no_grad "
        "save set_default_dtype set_grad_enabled",
        "fleet_paddle.mode": "seed",
        "fleet_paddle.fluid.layers": "create_global_var",
        "fleet_paddle.fluid.rates": "CosineDecay ExponentialDecay InverseTimeDecay NaturalExpDecay NoamDecay "
        "PiecewiseDecay PolynomialDecay",
        "fleet_paddle.dygraph": "LayerList to_variable",
    },
    renamed={
        "VarBase": "fleet_paddle.imperative:Tensor",
        "core": "paddle.fluid.core",
        "get_cuda_rng_state": "torch.cuda:get_rng_state_all",
        "in_dygraph_mode": "fleet_paddle.mode:in_dynamic_mode",
        "in_dynamic_mode": "fleet_paddle.mode:in_dynamic_mode",
        "manual_seed": "fleet_paddle.mode:seed",
        "set_cuda_rng_state": "torch.cuda:set_rng_state_all",
    },
    parts="framework io random",
    refused={
        "ComplexVariable": "a tensor may be complex: paddle.to_tensor with a complex array",
        "SaveLoadConfig": "paddle.save and paddle.load take what they need as arguments",
    },
)
