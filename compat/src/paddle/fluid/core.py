"""What scripts take from the old native module."""

from paddle._alias import alias

alias(
    __name__,
    {
        "fleet_programs": "CPUPlace CUDAPinnedPlace CUDAPlace EOFException LoDTensorArray Scope",
        "fleet_paddle.imperative": "is_compiled_with_cuda",
        "fleet_paddle.inference": "PaddleTensor",
        "fleet_paddle.programs.variables.lod": "LoDTensor",
        "fleet_paddle.programs.variables.var_types": "VarDesc",
    },
    renamed={
        "AnalysisConfig": "fleet_paddle.inference:Config",
        "PaddlePredictor": "fleet_paddle.inference:Predictor",
        "create_paddle_predictor": "fleet_paddle.inference:create_predictor",
        "Tensor": "fleet_paddle.programs.variables.lod:LoDTensor",
        "VarBase": "fleet_paddle.imperative:Tensor",
        "ops": "fleet_paddle.imperative.native_ops",
        "_cuda_synchronize": "torch.cuda:synchronize",
        "get_cuda_device_count": "torch.cuda:device_count",
    },
    refused={
        "Dataset": "use fluid.DatasetFactory().create_dataset('InMemoryDataset') or ('QueueDataset')",
        "DistCommunicator": "use fluid.communicator.Communicator",
        "Executor": "use fluid.Executor",
        "NaiveExecutor": "use fluid.io.load_inference_model and fluid.Executor",
        "OpDesc": "an operator is plain data: program.global_block().ops[0], with type, input() and attr()",
        "ParallelExecutor": "use fluid.CompiledProgram(program).with_data_parallel()",
        "ProgramDesc": "a program is plain data: Program, with to_json() and from_json()",
        "get_all_op_names": "use fleet_programs.operators.known",
    },
)
