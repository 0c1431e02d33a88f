"""Distributed training of version 2.0."""

from paddle._alias import alias

alias(
    __name__,
    {
        "fleet": "CountFilterEntry ProbabilityEntry ShowClickEntry",
        "fleet_programs": "InMemoryDataset QueueDataset",
        "fleet_paddle.imperative": "ParallelEnv get_rank get_world_size init_parallel_env",
        "fleet_paddle.imperative.exchange": "ReduceOp all_gather all_reduce alltoall barrier broadcast get_group "
        "new_group recv reduce scatter send wait",
        "fleet_paddle.imperative.spawning": "spawn",
    },
    parts="collective fleet launch launch_ps parallel",
    refused={
        "BoxPSDataset": "it fills the GPU servers of BoxPS, a library that is not public; use InMemoryDataset",
        "FileInstantDataset": "its files are binary, of a form that no tool here writes; use QueueDataset",
        "split": "train a torch module with torch.distributed.tensor",
    },
)
