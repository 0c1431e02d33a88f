"""First values of parameters."""

from paddle._alias import alias

alias(
    __name__,
    {
        "fleet.static.initializer": "Bilinear BilinearInitializer Constant ConstantInitializer Initializer MSRA "
        "MSRAInitializer Normal NormalInitializer NumpyArrayInitializer TruncatedNormal TruncatedNormalInitializer "
        "Uniform UniformInitializer Xavier XavierInitializer"
    },
    refused={
        "force_init_on_cpu": "first values depend on seed and name alone, not on the device",
        "init_on_cpu": "first values depend on seed and name alone, not on the device",
        "set_global_initializer": "give each parameter its own: ParamAttr(initializer=...)",
    },
)
