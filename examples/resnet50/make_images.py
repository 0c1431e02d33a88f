"""A folder of JPEG files in ImageNet's layout, made up: to try train.py with, and to measure the input pipeline.

    python examples/resnet50/make_images.py build/images --train 2000 --val 200 --classes 10

Each class has a pattern of its own under the noise, so there is something to learn. At 500 x 375 and the default
quality a file has about 110 kB, as ImageNet's have.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np
from common.extras import need

from fleet.errors import UsageError


def make(folder: Path, per_part: dict[str, int], num_classes: int, size: tuple[int, int], quality: int = 94) -> None:
    """Write FOLDER/PART/class-N/NUMBER.jpg; `size` is width and height."""
    pillow = need("PIL.Image", "Pillow", "making images")
    random = np.random.default_rng(3)
    patterns = random.integers(0, 200, (num_classes, 3, 4, 3), dtype=np.uint8)
    for part, number in per_part.items():
        for place in range(number):
            kind = place % num_classes
            home = folder / part / f"class-{kind:03}"
            home.mkdir(parents=True, exist_ok=True)
            smooth = pillow.fromarray(patterns[kind]).resize(size, pillow.Resampling.BICUBIC)
            coarse = random.integers(0, 120, (size[1] // 2, size[0] // 2, 3), dtype=np.uint8)
            noise = np.asarray(pillow.fromarray(coarse).resize(size, pillow.Resampling.BILINEAR))
            pillow.fromarray(np.asarray(smooth) // 2 + noise).save(home / f"{place:06}.jpg", quality=quality)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--train", type=int, default=2000, help="images to train on [default: 2000]")
    parser.add_argument("--val", type=int, default=200, help="images to measure with [default: 200]")
    parser.add_argument("--classes", type=int, default=10, help="[default: 10]")
    parser.add_argument("--size", default="500x375", help="width x height in pixels [default: 500x375]")
    options = parser.parse_args()
    try:
        width, _, height = options.size.partition("x")
        make(options.folder, {"train": options.train, "val": options.val}, options.classes, (int(width), int(height)))
    except (UsageError, ValueError, OSError) as error:
        sys.exit(f"make_images.py: {error}")
    print(f"{options.train} + {options.val} images of {options.classes} classes in {options.folder}")
