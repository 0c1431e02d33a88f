"""Rank 0 prints the wall clock on the line after init_process_group."""

import time

import torch.distributed as dist

dist.init_process_group("gloo")
if dist.get_rank() == 0:
    print("READY", time.time(), dist.get_world_size(), flush=True)
dist.destroy_process_group()
