"""Which GPUs this machine has and which of them each worker gets, found without torch."""

import ctypes
import glob
from collections.abc import Sequence

from fleet import env
from fleet.errors import UsageError
from fleet.launch.arguments.options import Options


def count_gpus() -> int:
    """The number of NVIDIA GPUs of this machine: the driver's answer, else the device files, else 0."""
    try:
        nvml = ctypes.CDLL("libnvidia-ml.so.1")
    except OSError:
        return len(glob.glob("/dev/nvidia[0-9]*"))
    count = ctypes.c_uint(0)
    if nvml.nvmlInit_v2() != 0:
        return 0
    try:
        return int(count.value) if nvml.nvmlDeviceGetCount_v2(ctypes.byref(count)) == 0 else 0
    finally:
        nvml.nvmlShutdown()


def visible_gpus(num_gpus: int, environ: env.Environ | None = None) -> tuple[str, ...]:
    """The GPUs a job may use, as CUDA_VISIBLE_DEVICES names them (numbers or UUIDs).

    As CUDA has it: a variable that is set but empty hides all, and the list ends at the first entry that is neither.
    """
    variable = env.CUDA_VISIBLE_DEVICES
    if num_gpus == 0:
        return ()
    if not variable.is_set(environ):
        return tuple(map(str, range(num_gpus)))
    text = variable.text(environ) or ""
    seen: list[str] = []
    for entry in map(str.strip, text.split(",")):
        is_number = entry.isascii() and entry.isdigit()
        if not is_number and not entry.startswith(("GPU-", "MIG-")):
            break
        if is_number and int(entry) >= num_gpus:
            raise UsageError(
                f"{variable.name}={text} names GPU {entry}, but this machine has {num_gpus}, counted from 0; "
                "name others, or unset it to use all"
            )
        seen.append(entry)
    return tuple(seen)


def assign_gpus(options: Options, visible: Sequence[str]) -> tuple[str, ...] | None:
    """The GPU of each local worker, or None when the job runs on the CPU.

    `--gpus` counts positions among the visible GPUs when CUDA_VISIBLE_DEVICES is set, and physical GPUs otherwise: in
    both cases position i of `visible`.
    """
    if options.device == "cpu":
        return None
    wanted = options.gpus
    if not visible:
        if wanted is not None or options.device == "cuda":
            asked = "--gpus" if wanted is not None else "--device cuda"
            raise UsageError(f"{asked}: this machine has no GPU that may be used; add --device cpu to train on the CPU")
        return None
    if wanted is None:
        num_workers = options.nproc_per_node or len(visible)
        if num_workers > len(visible):
            raise UsageError(
                f"--nproc_per_node {num_workers}: this machine has {len(visible)} usable GPU(s); "
                "name some with --gpus to share them, or add --device cpu"
            )
        return tuple(visible[:num_workers])
    unknown = [gpu for gpu in wanted if gpu >= len(visible)]
    if unknown:
        raise UsageError(
            f"--gpus: there is no GPU {unknown[0]}; this machine has {len(visible)}, numbered 0 to {len(visible) - 1}"
        )
    num_workers = options.nproc_per_node or len(wanted)
    if num_workers % len(wanted):
        raise UsageError(
            f"--nproc_per_node {num_workers} does not fit --gpus {','.join(map(str, wanted))}; "
            f"use {len(wanted)} workers, or a multiple to share the GPUs"
        )
    return tuple(visible[gpu] for gpu in wanted) * (num_workers // len(wanted))


def num_local_workers(options: Options, gpus: Sequence[str] | None) -> int:
    """How many workers a collective job starts on this machine."""
    if gpus is not None:
        return len(gpus)
    return options.nproc_per_node or (len(options.gpus) if options.gpus else 1)
