"""Programs of versions 1.5 to 1.8."""

from paddle._alias import alias

alias(
    __name__,
    {
        "fleet.static": "Block BuildStrategy CPUPlace CUDAPinnedPlace CUDAPlace CompiledProgram DataFeeder "
        "ExecutionStrategy Executor LoDTensor Operator ParallelExecutor ParamAttr Program Scope Variable cpu_places "
        "create_lod_tensor cuda_places data default_main_program default_startup_program global_scope gradients load "
        "memory_optimize name_scope program_guard release_memory save scope_guard",
        "fleet.transpiler": "DistributeTranspiler DistributeTranspilerConfig",
        "fleet.data": "DatasetFactory",
        "fleet.imperative": "is_compiled_with_cuda",
    },
    renamed={
        "Tensor": "fleet.static:LoDTensor",
        "embedding": "fleet.static.layers:embedding_v2",
        "one_hot": "fleet.static.functional:one_hot_v2",
        "in_dygraph_mode": "fleet.either.mode:in_dynamic_mode",
        "disable_dygraph": "fleet.either.mode:enable_static",
        "enable_dygraph": "fleet.either.mode:disable_static",
        "disable_imperative": "fleet.either.mode:enable_static",
        "enable_imperative": "fleet.either.mode:disable_static",
    },
    parts="average backward clip contrib core data_feeder dataset dygraph executor framework incubate initializer io "
    "layers metrics nets optimizer param_attr profiler reader regularizer transpiler unique_name",
    refused={
        "DataFeedDesc": "give the variables to a dataset: dataset.set_use_var([...])",
        "LoDTensorArray": "values of different lengths are a LoDTensor",
        "WeightNormParamAttr": "use ParamAttr with a regularizer, or layers.l2_normalize on the weights",
        "cuda_pinned_places": "use cpu_places; a loader pins what it sends to a GPU",
        "create_random_int_lodtensor": "use create_lod_tensor(numpy.random.randint(...), [lengths], place)",
        "debugger": "print a program: it is text; exe.source(program) shows what runs",
        "device_guard": "a process has one device; start one worker for each with fleetrun",
        "evaluator": "use fluid.metrics",
        "get_flags": "settings are arguments and strategy fields: docs/strategy.md",
        "install_check": "use fleetrun --selfcheck",
        "load_op_library": "register an operator in Python: fleet.static.registry.register",
        "require_version": "the names are those of versions 1.5 to 2.0",
        "set_flags": "settings are arguments and strategy fields: docs/strategy.md",
    },
)
