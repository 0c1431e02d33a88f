"""Fields of parameter-server training: the mode, the traffic between worker and server, the tables."""

from __future__ import annotations

from fleet.strategy.check import Switch
from fleet.strategy.family import FamilyField
from fleet.strategy.field import Setting, switch, text, whole, words
from fleet.strategy.group import Group, GroupField
from fleet.strategy.record import Record
from fleet.strategy.sparse_table import SparseTable


class ASync(Group):
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
    max_merge_var_num = whole(1, "is how many queued gradients are merged into one push at most.", least=1, built=True)
    send_queue_size = whole(
        2,
        "is how many pushes may wait in a worker before training waits for them. (The reference says 16: a fast worker "
        "then runs many steps ahead of its own gradients.)",
        least=1,
        built=True,
    )
    independent_recv_thread = switch(False, "pulls fresh dense parameters in a thread of their own.", built=True)
    min_send_grad_num_before_recv = whole(
        1, "is how many pushes go out before the receiving thread pulls again.", least=1, built=True
    )
    thread_pool_size = whole(1, "is the number of threads that send and receive in a worker.", least=1)
    send_wait_times = whole(
        1, "is how many times 10 ms a sender waits for one more gradient to merge before it sends.", least=0, built=True
    )
    runtime_split_send_recv = switch(False, "splits a gradient among the servers at the moment it is sent.")
    launch_barrier = switch(True, "makes workers wait until every server accepts connections.")
    heter_worker_device_guard = text("cpu", "is the device on which the heterogeneous workers' part of a model runs.")
    lr_decay_steps = whole(
        10, "is the number of steps after which a learning-rate schedule on the servers moves.", least=1
    )
    use_ps_gpu = whole(0, "keeps the hot rows of the tables in GPU memory when it is 1.", least=0, most=1)


class TrainerDesc(Group):
    """What a worker writes down while it trains from a dataset."""

    dump_fields_path = text("", "is the folder that receives the dumped values. Empty dumps nothing.")
    dump_fields = words("names the variables whose value is dumped for every instance.")
    dump_param = words("names the parameters that are dumped after every batch.")
    stat_var_names = words("names the variables whose mean is logged.")


class FileSystemClient(Group):
    """The account on the file system that holds models and data."""

    uri = text("", 'is the address of the file system, such as "hdfs://host:port".')
    user = text("", "is the account's name.")
    passwd = text(
        "",
        "is the account's password. It is hidden in messages; a file saved with it is readable by its owner only.",
        secret=True,
    )
    hadoop_bin = text("", "is the path of the hadoop client.")


class _ASyncSwitch(Setting[bool, bool]):
    """Assigning it, either way, chooses a parameter-server mode unless `k_steps` has already chosen one."""

    def __set__(self, record: Record, value: bool) -> None:
        super().__set__(record, value)
        configs: ASync = record.__dict__["_values"]["a_sync_configs"]
        if configs.k_steps < 0:
            configs.k_steps = 0


class ParameterServerFields(Record):
    """The part of the strategy about parameter servers."""

    a_sync = _ASyncSwitch(
        True,
        "lets servers apply a gradient when it arrives; False waits for all workers of a step. Assigning it, "
        "even its default, chooses a mode: `a_sync_configs.k_steps` becomes 0 if it was -1.",
        Switch(),
        built=False,
    )
    a_sync_configs = GroupField(ASync, "says how often and how workers and servers exchange.")
    dense = text(
        "server",
        "says who updates the dense parameters: the servers, or the workers by all-reduce while only "
        "the tables stay on servers.",
        "server",
        "allreduce",
        built=True,
    )
    nonfinite_gradients = text(
        "error",
        "says what a NaN or an Inf in a gradient does: it is an error and nothing is sent, or such rows and dense "
        "steps are skipped and counted.",
        "error",
        "skip",
        built=True,
    )
    adam_d2sum = switch(
        False,
        "uses the squared-gradient-sum form of Adam for dense parameters on servers. "
        "(The reference's releases disagree; its documentation says False.)",
    )
    sparse_table_configs = FamilyField(SparseTable, "configures tables by name.")
    fleet_desc_configs = FamilyField(
        SparseTable, "is another name for `sparse_table_configs`.", alias_of="sparse_table_configs"
    )
    trainer_desc_configs = GroupField(TrainerDesc, "says what workers dump while training from a dataset.")
    fs_client_param = GroupField(FileSystemClient, "is the account for remote model and data files.")
    is_fl_ps_mode = switch(False, "trains federated: each worker's data stays with it.")
    with_coordinator = switch(False, "adds a coordinator that selects the workers of each federated round.")
    split_data = switch(True, "gives each worker its own part of the input files.")
