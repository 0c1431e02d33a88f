"""Where the time goes."""

from paddle._alias import alias

alias(
    __name__,
    refused=dict.fromkeys(
        ("cuda_profiler", "profiler", "reset_profiler", "start_profiler", "stop_profiler"),
        "put the loop in torch.profiler.profile()",
    ),
)
