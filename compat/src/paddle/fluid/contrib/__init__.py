"""What had not settled yet."""

from paddle._alias import alias

alias(
    __name__,
    {
        "fleet_programs.layers": "shuffle_batch",
        "fleet_paddle.programs.networks.contrib_layers": "*",
        "fleet_paddle.programs.networks.decoders": "BeamSearchDecoder InitState StateCell TrainingDecoder",
        "fleet_paddle.programs.networks.stacked": "basic_gru basic_lstm",
        "fleet_paddle.programs.nn": "sparse_embedding",
    },
    parts="decoder layers mixed_precision reader",
    refused={
        "memory_usage": "use torch.cuda.max_memory_allocated",
        "utils": "for files of HDFS use paddle.distributed.fleet.utils.HDFSClient",
        "slim": "train a torch module with torch.ao",
        "Trainer": "write the loop: exe.run(feed=..., fetch_list=[...])",
    },
)
