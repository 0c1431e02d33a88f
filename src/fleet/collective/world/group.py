"""Starts torch's default process group for a collective job, and waits for its threads before the interpreter ends."""

import logging
import time
from pathlib import Path

import torch
import torch.distributed as dist
import torch.distributed.nn.functional  # where this comes after a group, its defaults keep the group and its port

from fleet import env, net
from fleet.collective.stall.watch import StallWatch
from fleet.collective.stall.watch import timeout_s as stall_timeout_s
from fleet.collective.world import rendezvous
from fleet.errors import CommunicationError, RoleError, UsageError
from fleet.roles.base import Identity

_THREAD = "pt_gloo_runloop"
_LOOK_EVERY_S = 0.001
_CALM_LOOKS = 3

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
    stall_s = stall_timeout_s()
    if dist.is_initialized():
        _check_existing(identity)
        _watch_over(identity, dist.distributed_c10d._get_default_store(), stall_s)
        return device, None
    backend = _choose_backend(device)
    rank, size = identity.index, identity.num_workers
    store: dist.Store
    if size == 1:
        store = dist.HashStore()
    else:
        store = rendezvous.open_store(identity)
        everybody = [f"worker {i}" for i in range(size)]
        rendezvous.roll_call(store, "roll-call", identity, everybody, "fleet.init()")
        _choose_interface(identity)
        env.prefer("TORCH_FR_BUFFER_SIZE", "2000")  # torch's default, where it records by default
    dist.init_process_group(backend, store=dist.PrefixStore("default", store), rank=rank, world_size=size)
    _watch_over(identity, store, stall_s)
    log.info("worker %d of %d on %s, %s", rank, size, device, backend)
    return device, dist.group.WORLD


def _choose_backend(device: torch.device) -> str:
    """NCCL for GPUs, except where workers share one, which NCCL refuses and Gloo does not."""
    if device.type == "cpu":
        return "gloo"
    is_shared = (env.LOCAL_WORLD_SIZE.get() or 1) > torch.cuda.device_count()
    return "cpu:gloo,cuda:gloo" if is_shared else "cpu:gloo,cuda:nccl"


def _choose_interface(identity: Identity) -> None:
    """On several machines, the interface that leads to worker 0; fleetrun has done this for the workers it starts."""
    if identity.num_nodes == 1 or identity.rendezvous is None or env.GLOO_SOCKET_IFNAME.text() is not None:
        return
    interface = net.choose_interface(identity.rendezvous.endpoint.host)
    if interface is not None:
        env.GLOO_SOCKET_IFNAME.put(interface)
        if env.NCCL_SOCKET_IFNAME.text() is None:
            env.NCCL_SOCKET_IFNAME.put(f"={interface}")  # alone it would be the beginning of a name


def stop_process_group(made: dist.ProcessGroup) -> None:
    """Leave the default process group if it is the one that was made here; the script's own is not ours to end."""
    if (watch := StallWatch.running()) is not None and watch.group is made:
        watch.stop()
    if dist.is_initialized() and dist.group.WORLD is made:
        dist.destroy_process_group()


def _watch_over(identity: Identity, store: dist.Store, timeout_s: float) -> None:
    """Start the watch that gives hangs a name; it lives until the group is gone, and so may be there already."""
    watch = StallWatch.running()
    if identity.num_workers == 1 or (watch is not None and watch.group is dist.group.WORLD):
        return
    if watch is not None:
        watch.stop()
    try:
        StallWatch(store, identity, timeout_s).start()
    except (CommunicationError, OSError, RuntimeError) as error:
        log.warning("a collective that hangs will not be reported: %s", str(error).splitlines()[0])


def _check_existing(identity: Identity) -> None:
    found = (dist.get_rank(), dist.get_world_size())
    expected = (identity.index, identity.num_workers)
    if found != expected:
        raise RoleError(
            f"torch.distributed was initialised as worker {found[0]} of {found[1]}, "
            f"but {identity.source} says worker {expected[0]} of {expected[1]}; remove one of the two"
        )


def let_gloo_rest(timeout_s: float = 1.0) -> bool:
    """Wait, before the interpreter ends, until Gloo's threads are idle; returns whether they were in time.

    A thread of Gloo lets go of the tensors of a collective after it has told us that the collective is done. If Python
    has dropped them meanwhile, it needs the GIL for that, and a thread that asks for the GIL of an ending interpreter
    takes the process down (`terminate called without an active exception`). Sleeping here lets it have the GIL.
    """
    calm = 0
    deadline = time.monotonic() + timeout_s
    while calm < _CALM_LOOKS:
        if time.monotonic() > deadline:
            return False
        time.sleep(_LOOK_EVERY_S)
        calm = calm + 1 if all(state == "S" for state in _states()) else 0
    return True


def _states() -> list[str]:
    """R, S, ... for each thread of Gloo in this process."""
    found = []
    for task in Path("/proc/self/task").iterdir():
        try:
            if (task / "comm").read_text().strip() == _THREAD:
                # The name, which may hold anything, stands in brackets before the state.
                found.append((task / "stat").read_text().rpartition(")")[2].split()[0])
        except OSError:  # it has ended
            continue
    return found
