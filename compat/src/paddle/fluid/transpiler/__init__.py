"""The transpiler: one program cut into those of trainers and servers."""

from paddle._alias import alias

alias(
    __name__,
    {
        "fleet_programs.transpiler": "DistributeTranspiler DistributeTranspilerConfig HashName RoundRobin "
        "memory_optimize release_memory"
    },
    parts="collective distribute_transpiler ps_dispatcher",
    refused={"InferenceTranspiler": "use fluid.io.save_inference_model, which keeps what is needed"},
)
