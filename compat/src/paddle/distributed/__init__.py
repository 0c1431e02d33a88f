"""Distributed training of version 2.0."""

from paddle._alias import alias

alias(
    __name__,
    {
        "fleet": "CountFilterEntry ProbabilityEntry ShowClickEntry",
        "fleet.data": "InMemoryDataset QueueDataset",
        "fleet_paddle.imperative": "ParallelEnv ReduceOp all_gather all_reduce barrier broadcast get_rank "
        "get_world_size init_parallel_env reduce",
        "fleet_paddle.imperative.spawning": "spawn",
    },
    parts="collective fleet launch launch_ps parallel",
    refused={
        "BoxPSDataset": "it fills the GPU servers of BoxPS, a library that is not public; use InMemoryDataset",
        "FileInstantDataset": "its files are binary, of a form that no tool here writes; use QueueDataset",
        "alltoall": "use torch.distributed.all_to_all",
        "new_group": "use torch.distributed.new_group",
        "recv": "use torch.distributed.recv",
        "scatter": "use torch.distributed.scatter",
        "send": "use torch.distributed.send",
        "split": "train a torch module with torch.distributed.tensor",
    },
)
