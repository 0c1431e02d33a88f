"""JPEG files to batches of pixels, in worker processes: decoded, cut, mirrored; bytes until they are on the device.

Pillow decodes. Where a photograph is at least twice as large as it is wanted, it is decoded at a half, a quarter or an
eighth of its size, which takes a fraction of the time (JPEG's draft mode). Cut and resize are one step.
"""

from __future__ import annotations

import argparse
import math
import multiprocessing
import os
from pathlib import Path
from typing import Any

import numpy as np
import torch
from common.extras import need
from common.options import number_in
from config import Config
from torch.utils.data import DataLoader, Dataset

import fleet
from fleet.errors import UsageError

ENDINGS = (".jpg", ".jpeg")
Batch = tuple[torch.Tensor, torch.Tensor]
"""Pixels [B, H, W, 3] as bytes, and classes [B]."""


def _pillow() -> Any:
    return need("PIL.Image", "Pillow", "a folder of images")


class Images(Dataset[Batch]):
    """The JPEG files of FOLDER/CLASS/, sorted; `augments`: a random part of each, mirrored or not, else the middle.

    What is random depends on the seed, the epoch and the number of the image, whoever decodes it.
    """

    def __init__(self, folder: Path, size: int, augments: bool, seed: int = 0) -> None:
        _pillow()
        try:
            self.classes = sorted(one.name for one in folder.iterdir() if one.is_dir())
        except OSError as error:
            raise UsageError(
                f"{folder}: {error.strerror}; --data takes a folder with train/CLASS/*.jpg and val/"
            ) from None
        self.files = [
            (file, number)
            for number, name in enumerate(self.classes)
            for file in sorted((folder / name).iterdir())
            if file.suffix.lower() in ENDINGS
        ]
        if not self.files:
            raise UsageError(f"{folder} has no class folders with .jpg files in them")
        self._size, self._augments, self._seed = size, augments, seed
        self._epoch = torch.zeros((), dtype=torch.int64).share_memory_()  # processes that stay hear of the next one

    def set_epoch(self, epoch: int) -> None:
        self._epoch.fill_(epoch)

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, number: int) -> Batch:
        return self.__getitems__([number])

    def __getitems__(self, numbers: list[int]) -> Batch:
        """A whole batch at once: the pixels are written where they stay."""
        pixels = np.empty((len(numbers), self._size, self._size, 3), dtype=np.uint8)
        for place, number in enumerate(numbers):
            pixels[place] = self._decoded(number)
        classes = torch.tensor([self.files[number][1] for number in numbers])
        return torch.from_numpy(pixels), classes

    def _decoded(self, number: int) -> Any:
        file, size = self.files[number][0], (self._size, self._size)
        try:
            with _pillow().open(file) as image:
                random = np.random.default_rng([self._seed, int(self._epoch), number]) if self._augments else None
                before = image.size
                box = middle(*before) if random is None else part_of(before[0], before[1], random)
                scale = min(box[2] - box[0], box[3] - box[1]) / self._size
                image.draft("RGB", (math.ceil(before[0] / scale), math.ceil(before[1] / scale)))
                factor = image.size[0] / before[0], image.size[1] / before[1]
                box = tuple(edge * factor[place % 2] for place, edge in enumerate(box))
                coloured = image if image.mode == "RGB" else image.convert("RGB")
                made = coloured.resize(size, _pillow().Resampling.BILINEAR, box=box)
        except (OSError, SyntaxError) as error:
            raise UsageError(f"{file} cannot be decoded ({error}); remove it or mend it") from None
        pixels = np.asarray(made)
        return pixels[:, ::-1] if random is not None and random.random() < 0.5 else pixels


Box = tuple[float, float, float, float]
"""Left, upper, right, lower, in pixels."""


def part_of(width: int, height: int, random: np.random.Generator) -> Box:
    """A random part: 8% to all of the area, up to a third wider or higher than a square."""
    for _ in range(10):
        area = width * height * random.uniform(0.08, 1.0)
        ratio = math.exp(random.uniform(math.log(3 / 4), math.log(4 / 3)))
        wide, high = math.sqrt(area * ratio), math.sqrt(area / ratio)
        if wide <= width and high <= height:
            left, upper = random.uniform(0, width - wide), random.uniform(0, height - high)
            return left, upper, left + wide, upper + high
    return middle(width, height)


def middle(width: int, height: int) -> Box:
    """The square in the middle, seven eighths of the shorter side: 224 of 256."""
    side = min(width, height) * 7 / 8
    left, upper = (width - side) / 2, (height - side) / 2
    return left, upper, left + side, upper + side


def made_up(number: int, config: Config, seed: int) -> Batch:
    """Noise over a pattern for each class, on the device from the beginning."""
    generator = torch.Generator().manual_seed(7)
    patterns = torch.randint(0, 160, (config.num_classes, 4, 4, 3), generator=generator, dtype=torch.uint8)
    generator.manual_seed(seed)
    classes = torch.randint(config.num_classes, (number,), generator=generator)
    noise = torch.randint(0, 96, (number, config.size, config.size, 3), generator=generator, dtype=torch.uint8)
    large = patterns[classes].repeat_interleave(config.size // 4, 1).repeat_interleave(config.size // 4, 2)
    return (large + noise).to(fleet.device), classes.to(fleet.device)


def loader_of(images: Images, batch_size: int, processes: int, shuffle: bool) -> DataLoader[Batch]:
    """Batches by `processes` processes, in pinned memory where there is a GPU.

    They are forked from a process of their own that has no threads: a thread of this one, of Gloo or of the GPU, may
    hold a lock while it is forked, and then the fork waits for ever. They stay from epoch to epoch: each imports torch
    and Fleet when it begins, which takes longer than a short epoch.
    """
    forkserver = multiprocessing.get_context("forkserver")
    forkserver.set_forkserver_preload(["torch", "PIL.Image"])
    return DataLoader(
        images,
        batch_size,
        shuffle=shuffle,
        drop_last=shuffle,
        num_workers=processes,
        multiprocessing_context=forkserver if processes else None,
        collate_fn=_as_it_is,  # a whole batch already
        pin_memory=fleet.device.type == "cuda",
        prefetch_factor=4 if processes else None,
        persistent_workers=processes > 0,
    )


def _as_it_is(batch: Any) -> Any:
    return batch


def open_data(args: argparse.Namespace, config: Config) -> tuple[fleet.data.Shard, fleet.data.Shard, int]:
    """This worker's batches to train on and to measure with, and the number of classes."""
    uneven: Any = "pad" if args.sharding in (2, 3) else "join"  # there every forward takes all workers
    num_made_up = number_in(args.data, default=2048)
    needed = args.batch_size * fleet.worker_num()
    if num_made_up is not None:
        _refuse_few(args.data, num_made_up, needed)
        train, held = made_up(num_made_up, config, seed=1), made_up(max(256, num_made_up // 8), config, seed=2)
        shard = fleet.data.shard(train, args.batch_size, shuffle=True, seed=args.seed, uneven="drop")
        return shard, fleet.data.shard(held, args.batch_size, uneven=uneven), config.num_classes
    folder = Path(args.data)
    train_images = Images(folder / "train", config.size, augments=True, seed=args.seed)
    held_images = Images(folder / "val", config.size, augments=False)
    if train_images.classes != held_images.classes:
        odd = sorted(set(train_images.classes) ^ set(held_images.classes))[0]
        raise UsageError(f"--data {folder}: class {odd!r} is in one of train/ and val/ and not in the other")
    _refuse_few(args.data, len(train_images), needed)
    share = len(os.sched_getaffinity(0)) * fleet.node_num() // fleet.worker_num()
    processes = max(1, share) if args.processes is None else args.processes
    loader = loader_of(train_images, args.batch_size, processes, shuffle=True)
    shard = fleet.data.shard(loader, seed=args.seed, uneven="drop")
    held_loader = loader_of(held_images, args.batch_size, processes, shuffle=False)
    return shard, fleet.data.shard(held_loader, uneven=uneven), len(train_images.classes)


def _refuse_few(data: str, number: int, needed: int) -> None:
    if number < needed:
        raise UsageError(
            f"--data {data} has {number} images, a step takes {needed}; give more, or a smaller --batch-size"
        )
