"""Fields of 2.0's strategy that tell PaddlePaddle's own runtime how to get to a result, and change none.

Fleet refuses them, since its users can only have meant something that does not happen. Scripts that were tuned for
PaddlePaddle set them as a matter of course, and train the same without.
"""

from __future__ import annotations

HINTS: dict[str, str] = {
    "sync_nccl_allreduce": "optimizer.step() waits for the reduction in any case",
    "calc_comm_same_stream": "communication has a stream of its own, and optimizer.step() waits for it",
    "use_hierarchical_allreduce": "NCCL finds the way through the machines by itself",
    "hierarchical_allreduce_inter_nranks": "NCCL finds the way through the machines by itself",
    "fuse_grad_size_in_TFLOPS": "gradients go in buckets of fuse_grad_size_in_MB",
    "fuse_grad_size_in_num": "gradients go in buckets of fuse_grad_size_in_MB",
    "fuse_grad_merge": "merged gradients are added where they lie",
    "conv_workspace_size_limit": "cuDNN asks torch for its workspace",
    "cudnn_batchnorm_spatial_persistent": "torch chooses the kernel of a batch norm",
    "without_graph_optimization": "the Executor fuses only what gives the same result",
    "a_sync_configs.thread_pool_size": "one thread sends, another receives",
    "a_sync_configs.runtime_split_send_recv": "a gradient is split among the servers as it is sent",
    "a_sync_configs.launch_barrier": "workers wait until every server answers",
    "hybrid_configs.dp_degree": "workers that the other degrees leave over are data parallel",
    "pipeline_configs.p2p_cache_shape": "there is no pipeline to cache shapes for",
}
"""Field -> why it changes nothing here."""
