"""Where the time goes."""

from paddle._alias import alias

alias(
    __name__,
    {"fleet_paddle.programs.measures.profiler": "profiler reset_profiler start_profiler stop_profiler"},
    refused={"cuda_profiler": "use profiler('GPU'), or run the script under nsys"},
)
