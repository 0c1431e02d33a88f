"""Imperative mode of version 1.8; `fluid.layers` and `fluid.optimizer` take its tensors."""

from paddle._alias import alias

alias(
    __name__,
    {
        "fleet_paddle.dygraph": "*",
        "fleet_paddle.fluid.epochs": "LambdaDecay MultiStepDecay ReduceLROnPlateau StepDecay",
        "fleet_paddle.fluid.rates": "*",
        "fleet_paddle.jit": "ProgramTranslator TracedLayer TranslatedLayer",
        "fleet_paddle.imperative.backward_strategy": "BackwardStrategy",
        "fleet_paddle.mode": "guard",
        "fleet_paddle.imperative.nn": "BCELoss L1Loss MSELoss NLLLoss",
        "fleet_paddle.imperative": "DataParallel ParallelEnv grad no_grad",
    },
    renamed={
        "declarative": "fleet_paddle.jit:to_static",
        "disable_dygraph": "fleet_paddle.mode:enable_static",
        "dygraph_to_static_func": "fleet_paddle.jit:to_static",
        "dygraph_to_static_output": "fleet_paddle.jit:to_static",
        "enable_dygraph": "fleet_paddle.mode:disable_static",
        "enabled": "fleet_paddle.mode:is_dynamic",
    },
    parts="base checkpoint container dygraph_to_static jit layers learning_rate_scheduler nn parallel rnn",
    refused={
        "FC": "use Linear(input_dim, output_dim), which needs the size of its input",
        "RowConv": "use a program with layers.row_conv",
        "SequenceConv": "use Conv2D over padded input, or a program with layers.sequence_conv",
        "TreeConv": "use Linear and layers.gather",
        "start_gperf_profiler": "use torch.profiler",
        "stop_gperf_profiler": "use torch.profiler",
    },
)
