"""Fields of parameter-server training: the mode, the traffic between worker and server, the tables."""

from fleet.strategy.check import Switch
from fleet.strategy.field import Setting, maybe_number, number, switch, text, whole
from fleet.strategy.record import Group, GroupField, StrategyRecord

FORMATS = ("float32", "bfloat16", "float16", "int8")
"""In the order of their numbers in proto/ps.proto."""
VALUE_FORMATS = ("float32", "bfloat16", "float16")


class ASyncConfigs(Group):
    """Traffic between a worker and the servers."""

    k_steps = whole(
        -1,
        "is the number of batches between two exchanges in geo mode. 0 exchanges at every batch (sync or "
        "async); -1 chooses no mode.",
        least=-1,
    )
    half_async = switch(
        False,
        "makes each worker wait for its own merged send before the next batch. Needs `a_sync` and `k_steps` 0.",
    )
    max_merge_var_num = whole(1, "is how many queued gradients are merged into one push at most.", least=1)
    send_queue_size = whole(
        2,
        "is how many pushes may wait in a worker before training waits for them. (PaddlePaddle says 16: a fast worker "
        "then runs many steps ahead of its own gradients.)",
        least=1,
    )
    independent_recv_thread = switch(False, "pulls fresh dense parameters in a thread of their own.")
    min_send_grad_num_before_recv = whole(
        1, "is how many pushes go out before the receiving thread pulls again.", least=1
    )
    send_wait_times = whole(
        1, "is how many times 10 ms a sender waits for one more gradient to merge before it sends.", least=0
    )


class WireConfigs(Group):
    """How floats travel. Servers hold and update everything in full; float32 changes no bit."""

    rows = text(
        "float32",
        "is how rows come to the workers, of every table that says nothing else "
        '(`fleet.nn.Embedding(..., wire="bfloat16")`). int8 has a scale for each row.',
        *FORMATS,
    )
    gradients = text(
        "float32",
        "is how gradients of rows, or in geo mode differences, go to the servers. float16 and int8 are rounded up or "
        "down by chance, so that small ones are not lost.",
        *FORMATS,
    )
    dense = text(
        "float32",
        "is how dense parameters come with the answer to a push; `fleet.stop_worker()` reads them in full.",
        *VALUE_FORMATS,
    )
    dense_gradients = text(
        "float32",
        "is how gradients of dense parameters go to the servers. What rounding takes away is added to the next ones. "
        "int8 has a scale for 64 values.",
        *FORMATS,
    )
    dense_ahead = switch(
        True,
        "lets gradients of dense parameters leave while backward still runs, where they are sent to another machine: "
        "in sync mode, from CPU memory, in float32. It changes no bit. False sends them with the step.",
    )
    dense_topk = maybe_number(
        "is the share of the dense gradients that a push has: the largest; the rest is added to the next ones. None "
        "sends all.",
        above=0,
        below=1,
    )


class _ASyncSwitch(Setting[bool, bool]):
    """Assigning it, either way, chooses a parameter-server mode unless `k_steps` has already chosen one."""

    def __set__(self, record: StrategyRecord, value: bool) -> None:
        super().__set__(record, value)
        configs: ASyncConfigs = record.__dict__["_values"]["a_sync_configs"]
        if configs.k_steps < 0:
            configs.k_steps = 0


class ParameterServerFields(StrategyRecord):
    """The part of the strategy about parameter servers."""

    wait_for_workers_s = maybe_number(
        "is how many seconds a synchronous step of a durable job (`fleetrun --durable`) waits for a worker that is "
        "away before the others go on without it, until it comes back. None waits for it, as long as "
        "`FLEET_STEP_TIMEOUT_S` says.",
        above=0.0,
    )

    a_sync = _ASyncSwitch(
        True,
        "lets servers apply a gradient when it arrives; False waits for all workers of a step. Assigning it, "
        "even its default, chooses a mode: `a_sync_configs.k_steps` becomes 0 if it was -1.",
        Switch(),
    )
    a_sync_configs = GroupField(ASyncConfigs, "says how often and how workers and servers exchange.")
    wire_configs = GroupField(
        WireConfigs, "lets floats between workers and servers travel in fewer bytes (docs/wire.md)."
    )
    dense = text(
        "server",
        "says who updates the dense parameters: the servers, or the workers by all-reduce while only "
        "the tables stay on servers.",
        "server",
        "allreduce",
    )
    publish = text(
        "",
        "is where the servers publish what changes in them, for those who serve: a folder, or a URL that "
        "`fleet.stream` knows (docs/serving.md). Empty: nowhere.",
    )
    publish_every_s = number(0.5, "is how many seconds lie between two batches of changes.", least=0.01)
    cuda_graphs = switch(
        False,
        "records the parts of a model without tables, forward and backward, as CUDA graphs, and replays them: with "
        "small batches a worker on a GPU waits for launches (docs/gpu.md). On a CPU it changes nothing.",
    )
