"""Starts torch's default process group for a collective job: the right backend, device and meeting point."""

from __future__ import annotations

import logging

import torch
import torch.distributed as dist

from fleet import env
from fleet.collective import rendezvous
from fleet.errors import RoleError, UsageError
from fleet.roles.base import Identity

log = logging.getLogger(__name__)


def choose_device(identity: Identity) -> torch.device:
    """The device of this worker: what fleetrun said, else a GPU if torch sees one."""
    wanted = env.FLEET_DEVICE.get()
    num_gpus = 0 if wanted == "CPU" else torch.cuda.device_count()
    if num_gpus == 0:
        if wanted == "CUDA":
            raise UsageError(
                "FLEET_DEVICE is cuda but torch sees no GPU; install a CUDA build of torch or use --device cpu"
            )
        return torch.device("cpu")
    return torch.device("cuda", identity.local_rank % num_gpus)


def start_process_group(identity: Identity) -> tuple[torch.device, dist.ProcessGroup | None]:
    """Make the default process group; return this worker's device and the group, for `stop_process_group`.

    A group that is there already is used as it is, if it agrees with the identity, and not returned.
    """
    device = choose_device(identity)
    if device.type == "cuda":
        torch.cuda.set_device(device)
    if dist.is_initialized():
        _check_existing(identity)
        return device, None
    backend = "gloo" if device.type == "cpu" else "cpu:gloo,cuda:nccl"
    rank, size = identity.index, identity.num_workers
    store: dist.Store
    if size == 1:
        store = dist.HashStore()
    else:
        store = rendezvous.open_store(identity)
        everybody = [f"worker {i}" for i in range(size)]
        rendezvous.roll_call(store, "roll-call", identity, everybody)
    dist.init_process_group(backend, store=dist.PrefixStore("default", store), rank=rank, world_size=size)
    log.info("worker %d of %d on %s, %s", rank, size, device, backend)
    return device, dist.group.WORLD


def stop_process_group(made: dist.ProcessGroup) -> None:
    """Leave the default process group if it is the one that was made here; the script's own is not ours to end."""
    if dist.is_initialized() and dist.group.WORLD is made:
        dist.destroy_process_group()


def _check_existing(identity: Identity) -> None:
    found = (dist.get_rank(), dist.get_world_size())
    expected = (identity.index, identity.num_workers)
    if found != expected:
        raise RoleError(
            f"torch.distributed was initialised as worker {found[0]} of {found[1]}, "
            f"but {identity.source} says worker {expected[0]} of {expected[1]}; remove one of the two"
        )
