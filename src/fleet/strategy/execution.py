"""Fields about how a static program is built and run, and how cuDNN picks its kernels."""

from __future__ import annotations

from fleet.strategy.field import switch, text, whole
from fleet.strategy.group import Group, GroupField
from fleet.strategy.record import Record


class BuildStrategy(Group):
    """Rewriting of a static program before it runs."""

    enable_sequential_execution = switch(False, "runs operations in the order of the program.")
    fuse_elewise_add_act_ops = switch(False, "fuses an addition with the activation after it.")
    fuse_bn_act_ops = switch(False, "fuses batch norm with the activation after it.")
    fuse_bn_add_act_ops = switch(True, "fuses batch norm, the addition after it and its activation.")
    fuse_relu_depthwise_conv = switch(False, "fuses ReLU with the depthwise convolution after it.")
    fuse_broadcast_ops = switch(False, "broadcasts several parameters at once.")
    fuse_all_optimizer_ops = switch(False, "updates all parameters in one operation.")
    fuse_gemm_epilogue = switch(False, "fuses a matrix product with its bias and activation.")
    fuse_dot_product_attention = switch(False, "replaces attention written out by one fused operation.")
    fuse_resunit = switch(False, "fuses the blocks of a residual network.")
    fused_attention = switch(False, "fuses a whole attention layer.")
    fused_feedforward = switch(False, "fuses a whole feed-forward layer.")
    enable_auto_fusion = switch(False, "fuses chains of element-wise operations.")
    enable_inplace = switch(False, "lets an operation write over an input nobody needs any more.")
    enable_addto = switch(False, "adds gradients in place.")
    enable_backward_optimizer_op_deps = switch(True, "starts the optimizer only when backward has ended.")
    cache_runtime_context = switch(False, "keeps what an operation worked out about its inputs for the next run.")
    fix_op_run_order = switch(False, "keeps the order of operations the same in every run.")
    allow_cuda_graph_capture = switch(False, "makes the program fit to be captured as a CUDA graph.")
    reduce_strategy = whole(
        0,
        "is 0 to all-reduce gradients, 1 to reduce each to one owner, 2 to leave them alone.",
        least=0,
        most=2,
    )
    debug_graphviz_path = text("", "is a file that receives a drawing of the program. Empty draws none.")


class ExecutionStrategy(Group):
    """Running of a static program."""

    num_threads = whole(1, "is the number of threads that run operations.", least=1)
    num_iteration_per_drop_scope = whole(
        10, "is the number of runs after which temporary variables are dropped.", least=1
    )
    num_iteration_per_run = whole(1, "is the number of iterations of one run call.", least=1)
    use_thread_barrier = switch(False, "makes the threads of an iteration wait for each other.")


class ExecutionFields(Record):
    """The part of the strategy about running."""

    build_strategy = GroupField(BuildStrategy, "says how a static program is rewritten.")
    execution_strategy = GroupField(ExecutionStrategy, "says how a static program is run.")
    without_graph_optimization = switch(
        True,
        "runs a static program as written. (The reference: False before 2.6, True since.)",
    )
    cudnn_exhaustive_search = switch(
        False,
        "measures convolution kernels and keeps the fastest. "
        "(The reference: True in 2.0, False in 2.6; False is also what PyTorch does.)",
        built=True,
    )
    conv_workspace_size_limit = whole(
        512,
        "is the scratch memory of a convolution in MB. (The reference: 4000 in 2.0, 512 in 2.6.)",
        least=0,
    )
    cudnn_batchnorm_spatial_persistent = switch(
        False, "uses cuDNN's persistent batch norm. (The reference: True in 2.0, False in 2.6.)"
    )
