"""Imperative mode of version 1.8; its optimizers are in `paddle.optimizer`."""

from paddle._alias import alias

alias(
    __name__,
    {
        "fleet.either.dygraph": "Conv2D Embedding Linear load_dygraph prepare_context save_dygraph to_variable",
        "fleet.either.mode": "guard",
        "fleet.imperative": "DataParallel ParallelEnv grad no_grad",
        "fleet.imperative.nn": "Dropout Layer LayerList LayerNorm ParameterList Sequential",
        "fleet.imperative.optimizer.lr": "ExponentialDecay InverseTimeDecay LambdaDecay NaturalExpDecay NoamDecay "
        "PiecewiseDecay PolynomialDecay StepDecay",
    },
    renamed={
        "disable_dygraph": "fleet.either.mode:enable_static",
        "enable_dygraph": "fleet.either.mode:disable_static",
        "enabled": "fleet.either.mode:in_dynamic_mode",
        "CosineDecay": "fleet.imperative.optimizer.lr:CosineAnnealingDecay",
    },
    refused={
        "BatchNorm": "use paddle.nn.BatchNorm2D",
        "Pool2D": "use paddle.nn.MaxPool2D or paddle.nn.AvgPool2D",
        "TracedLayer": "use torch.jit",
        "declarative": "write the program with fluid.layers",
        "jit": "write the program with fluid.layers",
        "parallel": "use paddle.distributed",
    },
)
