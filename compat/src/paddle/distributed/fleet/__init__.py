"""The API of distributed training: roles, strategy, optimizer, servers."""

from paddle._alias import alias

alias(
    __name__,
    {
        "fleet": "Fleet Role UserDefinedRoleMaker barrier_worker "
        "distributed_model init_worker is_first_worker is_server is_worker "
        "local_rank node_num run_server save_inference_model "
        "server_endpoints server_index server_num shrink stop_worker util worker_endpoints "
        "worker_index worker_num",
        "fleet_programs": "DatasetFactory InMemoryDataset MultiSlotDataGenerator MultiSlotStringDataGenerator "
        "QueueDataset main_program startup_program",
        "fleet_paddle.jobs.init_again": "init",
        "fleet_paddle.strategies.strategy": "DistributedStrategy",
        "fleet_paddle.jobs.older_fleet": "distributed_optimizer fleet init_server load_model save_persistables",
    },
    renamed={
        "PaddleCloudRoleMaker": "fleet_paddle.jobs.older_fleet:GeneralRoleMaker",
        "UtilBase": "fleet.collective.world.util:Util",
    },
    parts="base data_generator dataset launch metrics utils",
    refused={
        **dict.fromkeys(
            ("clear_grad", "get_lr", "minimize", "set_lr", "set_state_dict", "state_dict", "step"),
            "call it on what fleet.distributed_optimizer(optimizer) gives",
        ),
        "BoxPSDataset": "it fills the GPU servers of BoxPS, a library that is not public; use InMemoryDataset",
        "DatasetBase": "use InMemoryDataset or QueueDataset",
        "FileInstantDataset": "its files are binary, of a form that no tool here writes; use QueueDataset",
        "amp_init": "use strategy.amp = True with fleet.distributed_model",
        "get_hybrid_communicate_group": "every worker of a job is in one group",
    },
    live="main_program startup_program util",
)
