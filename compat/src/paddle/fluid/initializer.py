"""First values of parameters."""

from paddle._alias import alias

alias(
    __name__,
    {
        "fleet_programs.parameters.initializer": "Bilinear Initializer MSRA Normal TruncatedNormal Xavier",
        "fleet_paddle.fluid.initializer": "Constant Uniform force_init_on_cpu init_on_cpu",
    },
    renamed={
        "BilinearInitializer": "fleet_programs.parameters.initializer:Bilinear",
        "ConstantInitializer": "fleet_paddle.fluid.initializer:Constant",
        "MSRAInitializer": "fleet_programs.parameters.initializer:MSRA",
        "NormalInitializer": "fleet_programs.parameters.initializer:Normal",
        "NumpyArrayInitializer": "fleet_programs.parameters.initializer:NumpyArray",
        "TruncatedNormalInitializer": "fleet_programs.parameters.initializer:TruncatedNormal",
        "UniformInitializer": "fleet_paddle.fluid.initializer:Uniform",
        "XavierInitializer": "fleet_programs.parameters.initializer:Xavier",
    },
    refused={
        "set_global_initializer": "give each parameter its own: ParamAttr(initializer=...)",
    },
)
