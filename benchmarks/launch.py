"""From the shell to the line after init, with two CPU workers: fleetrun, torchrun, and two bare processes (the floor).

    python benchmarks/launch.py --repeats 5 --json benchmarks/results/launch.json

The contestants take turns; quoted are medians and the ratio of medians. `fleetrun --help` is timed beside them.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import click
from harness import Timing, write_results
from rich.console import Console
from rich.progress import track
from rich.table import Table

from fleet.net import Hold

SCRIPTS = Path(__file__).parent / "scripts"
BIN = Path(sys.executable).parent
LIMIT_S = 60
# One thread a process, for every contestant: torchrun's own default, and what two cores can carry.
ENVIRON = {**os.environ, "OMP_NUM_THREADS": "1"}


def seconds_until_ready(output: str, started: float) -> float:
    """The wall clock that worker 0 printed, less the start."""
    line = next(line for line in output.splitlines() if "READY" in line)
    words = line.split()
    assert words[-1] == "2", f"not two workers: {line}"
    return float(words[words.index("READY") + 1]) - started


def launcher(*command: str) -> Callable[[Path], float]:
    """A contestant that is a launcher."""

    def run(folder: Path) -> float:
        started = time.time()
        environ = {**ENVIRON, "TMPDIR": str(folder)}  # torchrun leaves a folder there
        done = subprocess.run(command, cwd=folder, env=environ, capture_output=True, text=True, timeout=LIMIT_S)
        assert done.returncode == 0, done.stderr
        return seconds_until_ready(done.stdout, started)

    return run


def two_bare_processes(folder: Path) -> float:
    """The floor: what importing torch and meeting cost without any launcher."""
    with Hold.any_port(plain=True) as hold:
        started = time.time()
        common = {
            **ENVIRON,
            "WORLD_SIZE": "2",
            "MASTER_ADDR": hold.endpoint.host,
            "MASTER_PORT": str(hold.endpoint.port),
        }
        processes = [
            subprocess.Popen(
                [sys.executable, str(SCRIPTS / "hello_torch.py")],
                cwd=folder,
                env={**common, "RANK": str(rank)},
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
            )
            for rank in range(2)
        ]
        output = "".join(process.communicate(timeout=LIMIT_S)[0] for process in processes)
    return seconds_until_ready(output, started)


def help_page(folder: Path) -> float:
    started = time.time()
    subprocess.run([str(BIN / "fleetrun"), "--help"], cwd=folder, env=ENVIRON, capture_output=True, check=True)
    return time.time() - started


CONTESTANTS: dict[str, Callable[[Path], float]] = {
    "fleetrun": launcher(
        str(BIN / "fleetrun"), "--nproc_per_node", "2", "--device", "cpu", str(SCRIPTS / "hello_fleet.py")
    ),
    "torchrun": launcher(str(BIN / "torchrun"), "--nproc_per_node", "2", str(SCRIPTS / "hello_torch.py")),
    "two bare processes": two_bare_processes,
    "fleetrun --help": help_page,
}


@click.command()
@click.option("--repeats", default=5, show_default=True, help="Measured turns, after one that is thrown away.")
@click.option("--json", "path", type=click.Path(path_type=Path), help="Write a results file.")
def main(repeats: int, path: Path | None) -> None:
    raw: dict[str, list[float]] = {name: [] for name in CONTESTANTS}
    with TemporaryDirectory() as folder:
        for turn in track(range(repeats + 1), "measuring", console=Console(stderr=True)):
            for name, contestant in CONTESTANTS.items():
                seconds = contestant(Path(folder))
                if turn > 0:
                    raw[name].append(seconds)
    timings = {name: Timing(seconds) for name, seconds in raw.items()}
    reference = timings["torchrun"].median_s

    table = Table("contestant", "median s", "least", "most", "of torchrun", title="shell to the line after init")
    for name, timing in timings.items():
        ratio = timing.median_s / reference
        table.add_row(
            name, f"{timing.median_s:.2f}", f"{min(timing.raw_s):.2f}", f"{max(timing.raw_s):.2f}", f"{ratio:.2f}"
        )
    Console().print(table)
    if path is not None:
        cases = [
            {"case": name, **timing.to_json(), "ratio_to_torchrun": timing.median_s / reference}
            for name, timing in timings.items()
        ]
        write_results(path, cases, workers=2)


if __name__ == "__main__":
    main()
