"""How torch's threads wait, in one process: the first job of the README, and one with larger layers, on shared cores.

    python benchmarks/threads.py --neighbours 0 --neighbours 1

Each contestant is a process of its own, which trains some steps when it is its turn and sleeps otherwise. A neighbour
is a process that does nothing but compute. Wall time and CPU time of a step are recorded.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import click
from harness import Timing, write_results

SIZES = {"readme": (256, 3, 8, 32, 40), "larger": (2000, 26, 10, 256, 10)}
"""Batch, ids of a sample, width of a row, width of the layers; steps of a turn."""
CONTESTANTS = {
    "torch's own spinning": {"GOMP_SPINCOUNT": "300000"},  # what libgomp does by itself
    "fleet": {},
    "OMP_WAIT_POLICY=passive": {"OMP_WAIT_POLICY": "passive"},
    "one thread": {"OMP_NUM_THREADS": "1"},
}


def train(size: str) -> None:
    """Be a contestant: a line of input is a turn, a line of output its seconds and CPU seconds by step."""
    import torch
    from torch import nn
    from torch.nn.functional import binary_cross_entropy_with_logits

    import fleet

    batch, num_ids, dim, width, num_steps = SIZES[size]

    class Clicks(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.rows = fleet.nn.Embedding(dim, rule=fleet.rules.Adagrad(lr=0.1))
            self.layers = nn.Sequential(nn.Linear(num_ids * dim, width), nn.ReLU(), nn.Linear(width, 1))

        def forward(self, ids: torch.Tensor) -> torch.Tensor:
            scores: torch.Tensor = self.layers(self.rows(ids).flatten(1)).squeeze(1)
            return scores

    fleet.init()
    model = fleet.distributed_model(Clicks())
    optimizer = fleet.distributed_optimizer(torch.optim.Adam(model.parameters(), lr=1e-2))
    fleet.init_worker()

    def turn() -> tuple[float, float]:
        begin, cpu = time.perf_counter(), time.process_time()
        for _ in range(num_steps):
            ids = torch.randint(1000, (batch, num_ids))
            label = ((ids % 7).sum(dim=1) > 3 * num_ids).float()
            loss = binary_cross_entropy_with_logits(model(ids), label)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        return (time.perf_counter() - begin) / num_steps, (time.process_time() - cpu) / num_steps

    turn()
    print(torch.get_num_threads(), flush=True)
    for _ in sys.stdin:
        print(*turn(), flush=True)
    fleet.stop_worker()


@contextmanager
def process(command: Sequence[str], **variables: str) -> Iterator[subprocess.Popen[str]]:
    """A process that is killed at the end."""
    mine = {name: value for name, value in os.environ.items() if not name.startswith(("OMP_", "GOMP_", "MKL_"))}
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, env={**mine, **variables}) as started:
        try:
            yield started
        finally:
            started.kill()


def case(size: str, num_neighbours: int, rounds: int) -> Iterator[dict[str, Any]]:
    """One result for each contestant."""
    raw: dict[str, list[tuple[float, float]]] = {name: [] for name in CONTESTANTS}
    with ExitStack() as running:
        children, threads = {}, {}
        for name, variables in CONTESTANTS.items():
            command = [sys.executable, __file__, "--contestant", size]
            children[name] = running.enter_context(process(command, **variables))
            threads[name] = int(_answer(children[name]))
        for _ in range(num_neighbours):
            running.enter_context(process([sys.executable, "-c", "while True: pass"]))
        for _ in range(rounds):
            for name, child in children.items():
                assert child.stdin is not None
                child.stdin.write("\n")
                child.stdin.flush()
                wall_s, cpu_s = map(float, _answer(child).split())
                raw[name].append((wall_s, cpu_s))
    for name, steps in raw.items():
        wall, cpu = (Timing(list(one)) for one in zip(*steps, strict=True))
        found = {"size": size, "neighbours": num_neighbours, "contestant": name, "threads": threads[name]}
        print(f"{found}: {1e3 * wall.median_s:.2f} ms a step, {1e3 * cpu.median_s:.2f} ms of CPU time")
        yield {**found, "step": wall.to_json(), "cpu": cpu.to_json()}


def _answer(child: subprocess.Popen[str]) -> str:
    assert child.stdout is not None
    line = child.stdout.readline()
    if not line:
        raise SystemExit(f"a contestant has ended with {child.wait()}")
    return line


@click.command(help=__doc__)
@click.option("--neighbours", type=click.IntRange(0), multiple=True, default=(0, 1), show_default=True)
@click.option("--rounds", type=click.IntRange(2), default=9, show_default=True)
@click.option("--out", type=click.Path(path_type=Path), default=Path(__file__).parent / "results" / "threads.json")
@click.option("--contestant", type=click.Choice(list(SIZES)), hidden=True)
def main(neighbours: tuple[int, ...], rounds: int, out: Path, contestant: str | None) -> None:
    if contestant is not None:
        train(contestant)
        return
    cases = [one for size in SIZES for number in neighbours for one in case(size, number, rounds)]
    load = os.getloadavg()[0]
    write_results(out, cases, load_average=load)


if __name__ == "__main__":
    main()
