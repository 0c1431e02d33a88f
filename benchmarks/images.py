"""How many JPEG files a second does the input pipeline of examples/resnet50 deliver, and what bounds it?

python benchmarks/images.py --json benchmarks/results/images.json

Files of 500 x 375 pixels, about 110 kB each, are made up once (--folder keeps them) and lie in the page cache. First
one core: reading a file, decoding it, and all that becomes of it. Then whole batches by 1, 2, 4 ... processes up to the
cores there are; with a GPU, until they are on it, through pinned memory. The share of the ideal is images a second over
what one core does times the number of processes.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

os.environ["OMP_NUM_THREADS"] = "1"
EXAMPLES = Path(__file__).parents[1] / "examples"
sys.path[:0] = [str(EXAMPLES), str(EXAMPLES / "resnet50")]

import click
import torch
from common.ahead import Ahead
from harness import measure, versions, write_results
from make_images import make
from PIL import Image, features
from pipeline import Images, loader_of
from rich.console import Console
from rich.table import Table

import fleet

SIZE = 224
FILES = 2048


def of_one_core(images: Images, number: int) -> dict[str, float]:
    """Images a second of each part of the work, one after the other on one core."""
    files = [file for file, _ in images.files[:number]]
    numbers = list(range(number))

    def decode() -> None:
        for file in files:
            with Image.open(file) as image:
                image.load()

    timings = measure(
        {
            "read": lambda: [file.read_bytes() for file in files],
            "decode": decode,
            "whole": lambda: images.__getitems__(numbers),
        },
        repeats=5,
        warmup=1,
    )
    return {name: number / timing.median_s for name, timing in timings.items()}


def of_processes(images: Images, batch_size: int, processes: int, seconds: float) -> float:
    """Images a second that a worker gets, on its device, once the processes are at work."""
    batches = Ahead(fleet.data.shard(loader_of(images, batch_size, processes, shuffle=True)))
    warm_up, num_images, begun = 2 * processes + 2, 0, 0.0
    while True:
        for pixels, _ in batches:
            warm_up -= 1
            if warm_up > 0:
                continue
            if fleet.device.type == "cuda":
                torch.cuda.synchronize()
            if warm_up == 0:
                begun = time.perf_counter()
                continue
            num_images += len(pixels)
            if time.perf_counter() - begun > seconds:
                return num_images / (time.perf_counter() - begun)


@click.command(help=__doc__)
@click.option("--folder", type=click.Path(path_type=Path), help="Where the files are, or are made.")
@click.option("--batch-size", default=128, show_default=True)
@click.option("--seconds", default=10.0, show_default=True, help="Of each number of processes.")
@click.option("--processes", multiple=True, type=int, help="Default: 1, 2, 4 ... and all cores.")
@click.option("--json", "path", type=click.Path(path_type=Path), help="Write the results there.")
def main(folder: Path | None, batch_size: int, seconds: float, processes: tuple[int, ...], path: Path | None) -> None:
    torch.set_num_threads(1)
    fleet.init(is_collective=True)
    cores = len(os.sched_getaffinity(0))
    doubled = [1 << power for power in range(cores.bit_length()) if 1 << power < cores]
    with tempfile.TemporaryDirectory() as temporary:
        home = folder or Path(temporary)
        if not (home / "train").exists():
            make(home, {"train": FILES}, 16, (500, 375))
        images = Images(home / "train", SIZE, augments=True)
        size_bytes = sum(file.stat().st_size for file, _ in images.files) / len(images)
        alone = of_one_core(images, 128)
        cases: list[dict[str, Any]] = []
        for number in processes or (*doubled, cores):
            rate = of_processes(images, batch_size, number, seconds)
            cases.append({"processes": number, "images_per_s": rate, "of_ideal": rate / number / alone["whole"]})
    show(alone, cases, size_bytes)
    if path is not None:
        packages = versions(("torch-fleet", "torch", "numpy", "Pillow"))
        turbo = features.version_feature("libjpeg_turbo") or "none"
        more = {"file_bytes": size_bytes, "device": str(fleet.device), "libjpeg_turbo": turbo, "one_core": alone}
        write_results(path, cases, versions=packages, batch_size=batch_size, **more)


def show(alone: dict[str, float], cases: list[dict[str, Any]], size_bytes: float) -> None:
    table = Table(title=f"JPEG files of {size_bytes / 1000:.0f} kB to batches of {SIZE} x {SIZE}")
    for name in ("", "images/s", "of the ideal"):
        table.add_column(name, justify="right")
    for name, rate in alone.items():
        table.add_row(f"one core: {name}", f"{rate:,.0f}", "")
    for case in cases:
        table.add_row(f"{case['processes']} processes", f"{case['images_per_s']:,.0f}", f"{case['of_ideal']:.2f}")
    Console().print(table)


if __name__ == "__main__":
    main()
