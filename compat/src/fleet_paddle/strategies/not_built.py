"""Settings of PaddlePaddle's strategy that Fleet does not have: what each reads as, and what to do instead.

A script that reads one, or sets it to its default, runs. Another value is refused at the line that sets it, in the
words of this table (`support.py`). Whoever builds a setting takes its line out and declares a field.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

ANY = "*"
"""Stands for every name: each table of `sparse_table_configs` has the same settings."""


class NotBuilt(NamedTuple):
    """One setting: its default, and a clause that says what to do instead."""

    default: Any
    instead: str


Names = Mapping[str, "NotBuilt | Names"]


def _each(instead: str, **defaults: Any) -> dict[str, NotBuilt]:
    return {name: NotBuilt(default, instead) for name, default in defaults.items()}


_ENTRY = "give the layer entry=fleet.ShowClickEntry(threshold=10)"
_RULE = "give the layer a rule, such as fleet.nn.Embedding(8, rule=fleet.rules.Adagrad(lr=0.05))"
_SAVE = "fleet.save_persistables and fleet.save_inference_model write every row, in safetensors and numpy files"
_SHRINK = "call fleet.shrink(score_below=0.8, decay=0.98)"
_UNSEEN = "call fleet.shrink(unseen_steps=100_000)"

_TABLE: Names = {
    **_each(
        "the layer says it: fleet.nn.Embedding(8, memory='4GiB') keeps the rest on disks, max_bytes=8 << 30 deletes it",
        sparse_table_class="MemorySparseTable",
        sparse_ssd_unseenday_threshold=1,
    ),
    **_each("keys are placed by their hash, each on one server", sparse_shard_num=1000),
    **_each(
        "the layer says how wide a row is: fleet.nn.Embedding(8); counters come on top of that",
        sparse_accessor_class="CtrCommonAccessor",
        sparse_fea_dim=11,
        sparse_embedx_dim=8,
    ),
    **_each(
        _ENTRY,
        sparse_embedx_threshold=10.0,
        sparse_nonclk_coeff=0.1,
        sparse_click_coeff=1.0,
    ),
    **_each(
        _RULE,
        sparse_optimizer="adagrad",
        sparse_learning_rate=None,
        sparse_initial_g2sum=3.0,
        sparse_beta1_decay_rate=0.9,
        sparse_beta2_decay_rate=0.999,
        sparse_ada_epsilon=1e-8,
    ),
    **_each("give the layer initializer=fleet.initializers.Uniform(-1e-4, 1e-4)", sparse_initial_range=1e-4),
    **_each("give the layer bounds=(-10.0, 10.0)", sparse_weight_bounds=(-10.0, 10.0)),
    **_each(
        "a row has one part; use two layers, fleet.nn.Embedding(1) and fleet.nn.Embedding(8), with a rule each",
        embed_sparse_optimizer=None,
        embed_sparse_learning_rate=None,
        embed_sparse_initial_range=0.0,
        embed_sparse_initial_g2sum=None,
        embed_sparse_weight_bounds=None,
        embed_sparse_beta1_decay_rate=None,
        embed_sparse_beta2_decay_rate=None,
        embedx_sparse_optimizer=None,
        embedx_sparse_learning_rate=None,
        embedx_sparse_initial_range=None,
        embedx_sparse_initial_g2sum=None,
        embedx_sparse_weight_bounds=None,
        embedx_sparse_beta1_decay_rate=None,
        embedx_sparse_beta2_decay_rate=None,
    ),
    **_each(_SHRINK, sparse_show_click_decay_rate=0.98, sparse_delete_threshold=0.8),
    **_each(_UNSEEN, sparse_delete_after_unseen_days=30.0),
    **_each(
        _SAVE,
        sparse_base_threshold=1.5,
        sparse_delta_threshold=0.25,
        sparse_delta_keep_days=16.0,
        sparse_compress_in_save=True,
        sparse_converter="",
        sparse_deconverter="",
        sparse_load_filter_slots=(),
        sparse_save_filter_slots=(),
        sparse_enable_cache=True,
        sparse_cache_rate=0.00055,
        sparse_cache_file_num=16,
    ),
    **_each("keep features of nodes in an ordinary table", feature_learning_rate=0.05, nodeid_slot=9008),
}

_BIG_MODEL = 'divide a large model with strategy.sharding and strategy.sharding_configs = {"stage": 3}'
_FEDERATED = "let workers train on copies in geo mode: strategy.a_sync_configs.k_steps = 100"
_GRID = "set strategy.sharding_configs.hybrid_dp and sharding_degree for copies of a divided model"
_BY_NCCL = "NCCL finds the way through the machines by itself"
_SEGMENTS = "set strategy.sharding_configs.segment_broadcast_MB"
_STREAMS = "communication has a stream of its own, and optimizer.step() waits for it"

NOT_BUILT: Names = {
    "a_sync_configs": {
        **_each("set send_queue_size and max_merge_var_num; one thread sends, another receives", thread_pool_size=1),
        **_each("a gradient is split among the servers as it is sent, always", runtime_split_send_recv=False),
        **_each("workers wait until every server answers, always", launch_barrier=True),
        **_each("move the model with model.to(device)", heter_worker_device_guard="cpu"),
        **_each("use torch.optim.lr_scheduler in the workers; rates travel with gradients", lr_decay_steps=10),
        **_each("tables are in host memory; fleetrun --server_device cuda is for dense parameters", use_ps_gpu=0),
    },
    "trainer_desc_configs": _each(
        "write the values down in the training loop",
        dump_fields_path="",
        dump_fields=(),
        dump_param=(),
        stat_var_names=(),
    ),
    "fs_client_param": _each(
        "use fleet_programs.fs.HDFSClient(hadoop_home, configs)", uri="", user="", passwd="", hadoop_bin=""
    ),
    "sparse_table_configs": {ANY: _TABLE},
    "fleet_desc_configs": {ANY: _TABLE},
    **_each("give fleet.distributed_optimizer a torch.optim.Adam", adam_d2sum=False),
    **_each(_FEDERATED, is_fl_ps_mode=False, with_coordinator=False),
    **_each("a worker reads the files it is given; fleet.util.get_file_shard(files) divides them", split_data=True),
    "gradient_scale_configs": _each("set scale_strategy", scale_gradient=False),
    **_each("set strategy.fuse_grad_size_in_MB", fuse_grad_size_in_TFLOPS=50.0, fuse_grad_size_in_num=8),
    **_each("strategy.gradient_merge adds to the gradients where they lie", fuse_grad_merge=False),
    **_each(_STREAMS, calc_comm_same_stream=False, sync_nccl_allreduce=True),
    **_each(_BY_NCCL, use_hierarchical_allreduce=False, hierarchical_allreduce_inter_nranks=1),
    **_each("start workers with one kind of device: fleetrun --device", heter_ccl_mode=False),
    **_each("start the job with fleetrun --nnodes 2:4 --max_restart 3", elastic=False),
    "amp_configs": {
        **_each("set amp_configs.use_pure_bf16", use_pure_fp16=False, use_optimizer_fp16=False),
        **_each("name functions in amp_configs.custom_black_list", use_fp16_guard=True),
    },
    "recompute_configs": _each("the activations themselves have their shapes", checkpoint_shape=()),
    **_each("prune the module with torch.nn.utils.prune before fleet.distributed_model", asp=False),
    **_each("prepare the module with torch.ao.quantization before fleet.distributed_model", qat=False),
    **_each(_BIG_MODEL, pipeline=False, tensor_parallel=False),
    "pipeline_configs": _each(
        _BIG_MODEL,
        micro_batch_size=1,
        micro_batch=1,
        accumulate_steps=1,
        schedule_mode="1F1B",
        p2p_cache_shape=True,
        enable_partial_send_recv=True,
    ),
    "sharding_configs": {
        **_each(_SEGMENTS, sharding_segment_strategy="segment_broadcast_MB", segment_anchors=()),
        **_each(_GRID, mp_degree=1, dp_degree=1, pp_degree=1),
        **_each("set strategy.amp_configs.use_pure_bf16", optimize_cast=False),
        **_each("gradients are reduced while backward runs", pp_allreduce_in_optimize=False),
    },
    "tensor_parallel_configs": _each(_BIG_MODEL, tensor_parallel_degree=1, tensor_init_seed=-1),
    "hybrid_configs": _each(_GRID, dp_degree=-1, mp_degree=1, pp_degree=1, sharding_degree=1, sep_degree=1),
    **_each("set strategy.auto", semi_auto=False, auto_search=False),
    **_each("give fleet_programs.CompiledProgram a BuildStrategy", without_graph_optimization=True),
    **_each("set strategy.cudnn_exhaustive_search", conv_workspace_size_limit=512),
    **_each("set strategy.channels_last or strategy.auto", cudnn_batchnorm_spatial_persistent=False),
}
