"""Programs of versions 1.5 to 1.8."""

from paddle import __version__ as __version__
from paddle._alias import alias

alias(
    __name__,
    {
        "fleet_programs": "Block BuildStrategy CPUPlace CUDAPinnedPlace CUDAPlace CompiledProgram DataFeeder "
        "DatasetFactory ExecutionStrategy Executor InMemoryDataset LoDTensorArray Operator ParallelExecutor Program "
        "QueueDataset Scope "
        "Variable cpu_places create_lod_tensor create_random_int_lodtensor cuda_places data default_main_program "
        "default_startup_program global_scope gradients memory_optimize name_scope program_guard release_memory "
        "save scope_guard",
        "fleet_programs.transpiler": "DistributeTranspiler DistributeTranspilerConfig",
        "fleet_paddle.attr": "ParamAttr",
        "fleet_paddle.dygraph": "BatchNorm BilinearTensorProduct Conv2D Conv2DTranspose Conv3D Conv3DTranspose Dropout "
        "Embedding Flatten GRUUnit GroupNorm InstanceNorm Layer LayerList LayerNorm Linear NCE PRelu ParameterList "
        "Pool2D Sequential SpectralNorm load_dygraph save_dygraph to_variable",
        "fleet_paddle.imperative": "DataParallel ParallelEnv grad is_compiled_with_cuda is_compiled_with_xpu no_grad",
        "fleet_paddle.jit": "ProgramTranslator TracedLayer",
        "fleet_paddle.mode": "guard",
        "fleet_paddle.foreign.loading": "load load_program_state",
        "fleet_programs.io.state": "set_program_state",
        "fleet_paddle.flags": "get_flags set_flags",
        "fleet_paddle.programs.device": "cuda_pinned_places device_guard",
        "fleet_paddle.programs.variables.lod": "LoDTensor",
        "fleet_paddle.tools.require": "require_version",
    },
    renamed={
        "Tensor": "fleet_paddle.programs.variables.lod:LoDTensor",
        "embedding": "fleet_paddle.fluid.layers:embedding_v2",
        "one_hot": "fleet_paddle.fluid.layers:one_hot_v2",
        "in_dygraph_mode": "fleet_paddle.mode:is_dynamic",
        "disable_dygraph": "fleet_paddle.mode:enable_static",
        "enable_dygraph": "fleet_paddle.mode:disable_static",
        "disable_imperative": "fleet_paddle.mode:enable_static",
        "enable_imperative": "fleet_paddle.mode:disable_static",
    },
    parts="average backward clip communicator compiler contrib core data_feeder dataloader dataset dygraph evaluator "
    "executor framework incubate initializer install_check io layer_helper layers lod_tensor log_helper metrics nets "
    "optimizer param_attr profiler reader regularizer transpiler unique_name",
    refused={
        **dict.fromkeys(
            (
                "BeginEpochEvent",
                "BeginStepEvent",
                "CheckpointConfig",
                "EndEpochEvent",
                "EndStepEvent",
                "Inferencer",
                "Trainer",
            ),
            "it went with version 1.2; write the loop: optimizer.minimize(loss), exe.run(startup), then "
            "exe.run(feed=..., fetch_list=[loss]) for each batch, and fluid.io.save_inference_model at the end",
        ),
        "DataFeedDesc": "give the variables to a dataset: dataset.set_use_var([...])",
        "WeightNormParamAttr": "use ParamAttr with a regularizer, or layers.l2_normalize on the weights",
        "debugger": "print a program: it is text; exe.source(program) shows what runs",
        "load_op_library": "register an operator in Python: fleet_programs.definition.registry.register",
    },
)
