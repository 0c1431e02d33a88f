"""First values of parameters."""

from paddle._alias import alias

alias(
    __name__,
    {
        "fleet.static.initializer": "Bilinear Initializer MSRA Normal TruncatedNormal Xavier",
        "fleet_paddle.fluid.initializer": "Constant Uniform force_init_on_cpu init_on_cpu",
    },
    renamed={
        "BilinearInitializer": "fleet.static.initializer:Bilinear",
        "ConstantInitializer": "fleet_paddle.fluid.initializer:Constant",
        "MSRAInitializer": "fleet.static.initializer:MSRA",
        "NormalInitializer": "fleet.static.initializer:Normal",
        "NumpyArrayInitializer": "fleet.static.initializer:NumpyArray",
        "TruncatedNormalInitializer": "fleet.static.initializer:TruncatedNormal",
        "UniformInitializer": "fleet_paddle.fluid.initializer:Uniform",
        "XavierInitializer": "fleet.static.initializer:Xavier",
    },
    refused={
        "set_global_initializer": "give each parameter its own: ParamAttr(initializer=...)",
    },
)
