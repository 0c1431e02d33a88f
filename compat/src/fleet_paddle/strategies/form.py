"""The fields of a strategy in protobuf's text format: a name and a kind each, `*` where there are many.

Names of all versions from 2.0 to 2.2 are here, also those that one has and another has not. Only names count in text:
numbers are given out in this order.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

_BOOL = "bool"
_SWITCHES = """
amp recompute localsgd dgc gradient_merge lars lamb pipeline elastic auto a_sync sync_nccl_allreduce
use_hierarchical_allreduce sync_batch_norm fuse_all_reduce_ops cudnn_exhaustive_search
cudnn_batchnorm_spatial_persistent adaptive_localsgd fp16_allreduce sharding find_unused_parameters tensor_parallel
without_graph_optimization calc_comm_same_stream asp fuse_grad_merge semi_auto adam_d2sum auto_search heter_ccl_mode
"""
_BUILD = """
enable_sequential_execution fuse_elewise_add_act_ops fuse_bn_act_ops fuse_relu_depthwise_conv fuse_broadcast_ops
fuse_all_optimizer_ops enable_inplace enable_backward_optimizer_op_deps cache_runtime_context fuse_bn_add_act_ops
enable_auto_fusion enable_addto fix_op_run_order allow_cuda_graph_capture
"""

FORM: dict[str, str | dict[str, str]] = {
    **dict.fromkeys(_SWITCHES.split(), _BOOL),
    "nccl_comm_num": "int32",
    "hierarchical_allreduce_inter_nranks": "int32",
    "fuse_grad_size_in_MB": "int32",
    "fuse_grad_size_in_TFLOPS": "double",
    "fuse_grad_size_in_num": "int32",
    "conv_workspace_size_limit": "int32",
    "last_comm_group_size_MB": "double",
    "recompute_configs": {"checkpoints": "string*", "enable_offload": _BOOL, "checkpoint_shape": "int32*"},
    "amp_configs": {
        "init_loss_scaling": "double",
        "incr_every_n_steps": "int32",
        "decr_every_n_nan_or_inf": "int32",
        "incr_ratio": "double",
        "decr_ratio": "double",
        "use_dynamic_loss_scaling": _BOOL,
        "custom_white_list": "string*",
        "custom_black_list": "string*",
        "custom_black_varnames": "string*",
        "use_pure_fp16": _BOOL,
        "use_fp16_guard": _BOOL,
        "use_optimizer_fp16": _BOOL,
    },
    "localsgd_configs": {"k_steps": "int32", "begin_step": "int32"},
    "gradient_merge_configs": {"k_steps": "int32", "avg": _BOOL},
    "dgc_configs": {"rampup_begin_step": "int32", "rampup_step": "int32", "sparsity": "double*"},
    "pipeline_configs": {
        "micro_batch": "int32",
        "micro_batch_size": "int32",
        "accumulate_steps": "int32",
        "schedule_mode": "string",
        "p2p_cache_shape": _BOOL,
    },
    "a_sync_configs": {
        "k_steps": "int32",
        "max_merge_var_num": "int32",
        "send_queue_size": "int32",
        "independent_recv_thread": _BOOL,
        "min_send_grad_num_before_recv": "int32",
        "thread_pool_size": "int32",
        "send_wait_times": "int32",
        "runtime_split_send_recv": _BOOL,
        "launch_barrier": _BOOL,
        "heter_worker_device_guard": "string",
        "lr_decay_steps": "int32",
        "use_ps_gpu": "int32",
    },
    "lars_configs": {
        "lars_coeff": "double",
        "lars_weight_decay": "double",
        "epsilon": "double",
        "exclude_from_weight_decay": "string*",
    },
    "lamb_configs": {"lamb_weight_decay": "double", "exclude_from_weight_decay": "string*"},
    "adaptive_localsgd_configs": {"init_k_steps": "int32", "begin_step": "int32"},
    "sharding_configs": {
        "fuse_broadcast_MB": "double",
        "sharding_group_size": "int32",
        "sharding_segment_strategy": "string",
        "segment_broadcast_MB": "double",
        "segment_anchors": "string*",
        "sharding_degree": "int32",
        "mp_degree": "int32",
        "dp_degree": "int32",
        "hybrid_dp": _BOOL,
        "gradient_merge_acc_step": "int32",
        "optimize_offload": _BOOL,
        "pp_allreduce_in_optimize": _BOOL,
        "pp_degree": "int32",
        "optimize_cast": _BOOL,
        "stage": "int32",
    },
    "hybrid_configs": {"dp_degree": "int32", "mp_degree": "int32", "pp_degree": "int32", "sharding_degree": "int32"},
    "tensor_parallel_configs": {"tensor_parallel_degree": "int32", "tensor_init_seed": "int32"},
    "trainer_desc_configs": {
        "dump_fields_path": "string",
        "dump_fields": "string*",
        "dump_param": "string*",
        "stat_var_names": "string*",
    },
    "fs_client_param": {"uri": "string", "user": "string", "passwd": "string", "hadoop_bin": "string"},
    "build_strategy": {
        **dict.fromkeys(_BUILD.split(), _BOOL),
        "reduce_strategy": "int32",
    },
    "execution_strategy": {
        "num_threads": "int32",
        "num_iteration_per_drop_scope": "int32",
        "num_iteration_per_run": "int32",
        "use_thread_barrier": _BOOL,
    },
    "gradient_scale_configs": {"scale_strategy": "string", "scale_gradient": _BOOL},
}
"""Field -> kind, or the fields of a group."""

_PACKAGE = "fleet_paddle.strategy_form"


@cache
def message_class() -> Any:
    """A class of protobuf messages with these fields."""
    file = descriptor_pb2.FileDescriptorProto(name="strategy_form.proto", package=_PACKAGE, syntax="proto2")
    _describe(file, "DistributedStrategy", FORM)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{_PACKAGE}.DistributedStrategy"))


def _describe(file: Any, name: str, form: dict[str, Any]) -> None:
    kinds = descriptor_pb2.FieldDescriptorProto
    message = file.message_type.add(name=name)
    for number, (field, kind) in enumerate(form.items(), 1):
        added = message.field.add(name=field, number=number, label=kinds.LABEL_OPTIONAL)
        if isinstance(kind, dict):
            _describe(file, field, kind)
            added.type, added.type_name = kinds.TYPE_MESSAGE, f".{_PACKAGE}.{field}"
            continue
        if kind.endswith("*"):
            added.label = kinds.LABEL_REPEATED
        added.type = kinds.Type.Value(f"TYPE_{kind.rstrip('*').upper()}")
