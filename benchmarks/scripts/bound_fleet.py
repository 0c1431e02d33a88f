"""CTR-DNN with its processes bound to cores in several ways, which take turns inside one job.

    fleetrun --server_num 8 --worker_num 8 benchmarks/scripts/bound_fleet.py --mode async --out FOLDER

Worker 0 moves all processes between two blocks of batches. Each worker leaves its figures as JSON in the folder --out.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import random
import sys
import time
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import psutil
import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812

import fleet
from fleet.ps.worker.parts import meters

sys.path.insert(0, str(Path(__file__).parents[2]))
from ctr_fleet import CTR, PARTS, WIDTH, difference, job_cpu_s, strategy_of
from examples.ctr.data import DENSE, SLOTS, Batch, batches

CPUS = Path("/sys/devices/system/cpu")
NO_GC = "free, without garbage collection"
Places = dict[str, Callable[[int], set[int]]]
"""By role: the CPUs of the process with an index."""


def topology() -> dict[int, dict[str, str]]:
    """What the kernel tells of each CPU that this process may use."""
    found = {}
    for cpu in sorted(os.sched_getaffinity(0)):
        folder = CPUS / f"cpu{cpu}"
        told = {"siblings": folder / "topology" / "thread_siblings_list"}
        told |= {"package": folder / "topology" / "physical_package_id", "l3": folder / "cache/index3/shared_cpu_list"}
        found[cpu] = {name: path.read_text().strip() if path.exists() else "" for name, path in told.items()}
    return found


def pairs() -> list[list[int]]:
    """The CPUs two by two: those of one core where cores have two, else neighbours."""
    cores: dict[str, list[int]] = {}
    for cpu, told in topology().items():
        cores.setdefault(told["siblings"], []).append(cpu)
    flat = [cpu for core in cores.values() for cpu in core]
    return [flat[first : first + 2] for first in range(0, len(flat) - 1, 2)]


def ways() -> dict[str, Places]:
    every, two = os.sched_getaffinity(0), pairs()

    def pair(index: int) -> set[int]:
        return set(two[index % len(two)])

    def first(index: int) -> set[int]:
        return {two[index % len(two)][0]}

    def second(index: int) -> set[int]:
        return {two[index % len(two)][-1]}

    return {
        "free": {"TRAINER": lambda _: every, "PSERVER": lambda _: every},
        "a pair for a worker and a server": {"TRAINER": pair, "PSERVER": pair},
        "a CPU each": {"TRAINER": first, "PSERVER": second},
        "a pair for a worker": {"TRAINER": pair, "PSERVER": lambda _: every},
        NO_GC: {"TRAINER": lambda _: every, "PSERVER": lambda _: every},
        "a CPU for a worker": {"TRAINER": first, "PSERVER": lambda _: every},
    }


def bind(way: Places) -> None:
    """Move every thread of every process of the job."""
    launcher = psutil.Process().parent()
    assert launcher is not None
    for process in launcher.children():
        environ = process.environ()
        role = environ.get("TRAINING_ROLE")
        if role not in way:
            continue
        index = int(environ["PADDLE_TRAINER_ID" if role == "TRAINER" else "PADDLE_PSERVER_ID"])
        for thread in process.threads():
            os.sched_setaffinity(thread.id, way[role](index))


def stolen_s() -> float:
    """Seconds so far that the machine under this one took from its CPUs, all together."""
    words = Path("/proc/stat").read_text().split("\n", 1)[0].split()
    return float(words[8]) / os.sysconf("SC_CLK_TCK")


def train(model: nn.Module, optimizer: torch.optim.Optimizer, data: Sequence[Batch]) -> dict[str, list[float]]:
    """One pass; for each batch the seconds spent in each of PARTS."""
    spent: dict[str, list[float]] = {part: [] for part in PARTS}
    now = time.perf_counter
    end = now()
    for ids, dense, label in fleet.prefetch(data, model, keys=lambda batch: batch[0]):
        moments = [end, now()]
        loss = F.cross_entropy(model(ids, dense), label)
        moments.append(now())
        loss.backward()
        moments.append(now())
        optimizer.step()
        optimizer.zero_grad()
        end = now()
        for part, (begin, finish) in zip(PARTS, pairwise([*moments, end]), strict=True):
            spent[part].append(finish - begin)
    fleet.flush()
    return spent


def compute(steps: int) -> None:
    """The same layers without rows: what the machine lets so many processes compute."""
    layers = COMPUTED
    inputs, label = torch.randn(1000, SLOTS * WIDTH + DENSE, requires_grad=True), torch.randint(2, (1000,))
    for _ in range(steps):
        layers.zero_grad()
        F.cross_entropy(layers(inputs), label).backward()


COMPUTED = CTR().layers


def work(steps: int, rounds: int, chosen: Sequence[str], kinds: Sequence[str]) -> list[dict[str, Any]]:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = fleet.distributed_model(CTR())
    optimizer = fleet.distributed_optimizer(torch.optim.Adam(model.parameters(), lr=1e-4, fused=True))
    fleet.init_worker()
    data = list(batches(steps, worker=fleet.worker_index(), zipf=1.1))
    first, known, found = fleet.is_first_worker(), ways(), []
    train(model, optimizer, data)
    compute(2)
    for turn in range(rounds):
        for name in random.Random(turn).sample(chosen, len(chosen)):
            for kind in kinds:
                fleet.barrier_worker()
                if first:
                    bind(known[name])
                fleet.barrier_worker()
                if kind == "train":
                    train(model, optimizer, data[:4])
                fleet.barrier_worker()
                if name == NO_GC:
                    gc.disable()
                timed, cpu, stolen = meters.snapshot(), job_cpu_s() if first else {}, stolen_s()
                fleet.barrier_worker()
                begin, raw = time.time(), {}
                if kind == "train":
                    raw = train(model, optimizer, data)
                else:
                    compute(steps)
                own = time.time()
                fleet.barrier_worker()
                end = time.time()
                gc.enable()
                found.append(
                    {
                        "way": name,
                        "kind": kind,
                        "begin": begin,
                        "own_end": own,
                        "end": end,
                        "batches": steps,
                        "parts_s": {part: sum(each) for part, each in raw.items()},
                        "raw_s": raw,
                        "stolen_s": stolen_s() - stolen,
                        "meters_s": difference(meters.snapshot(), timed),
                        "cpu_s": difference(job_cpu_s(), cpu) if first else {},
                    }
                )
    fleet.barrier_worker()
    fleet.stop_worker()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mode", choices=["sync", "async"], required=True)
    parser.add_argument("--steps", type=int, default=40, help="Batches of a block.")
    parser.add_argument("--rounds", type=int, default=2, help="Blocks of each way.")
    parser.add_argument("--way", action="append", default=[])
    parser.add_argument("--compute", action="store_true", help="Beside each block, the dense layers alone.")
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    fleet.init(strategy=strategy_of(args.mode, {}))
    if fleet.is_server():
        fleet.run_server()
        return
    found = work(
        args.steps, args.rounds, args.way or list(ways()), ("train", "compute") if args.compute else ("train",)
    )
    (args.out / f"worker{fleet.worker_index()}.json").write_text(json.dumps(found))


if __name__ == "__main__":
    main()
