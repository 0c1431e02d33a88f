"""Programs of version 2.0."""

from paddle._alias import alias

alias(
    __name__,
    {
        "fleet_programs": "BuildStrategy CompiledProgram ExecutionStrategy Executor ParallelExecutor Program Scope "
        "Variable append_backward cpu_places cuda_places data default_main_program default_startup_program "
        "global_scope gradients name_scope program_guard save scope_guard",
        "fleet_programs.io": "save_vars set_program_state",
        "fleet_paddle.foreign.loading": "load load_program_state load_vars",
        "fleet_programs.optimizer.moving_average": "ExponentialMovingAverage",
        "fleet_paddle.programs.device": "device_guard",
        "fleet_paddle.programs.inference_files": "load_inference_model save_inference_model",
        "fleet_paddle.programs.serialized": "*",
        "fleet_paddle.hapi.spec": "InputSpec",
        "fleet_programs.layers": "Print accuracy auc create_global_var create_parameter",
    },
    renamed={
        "py_func": "fleet_paddle.fluid.layers:py_func",
    },
    parts="amp nn",
    refused={
        "WeightNormParamAttr": "use paddle.ParamAttr with a regularizer",
    },
)
