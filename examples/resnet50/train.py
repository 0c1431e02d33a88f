"""ResNet-50 learns to name photographs: a folder of JPEG files, or made-up images, on any number of CPUs or GPUs.

    python examples/resnet50/train.py --out runs/resnet                                         tiny, on a CPU
    python examples/resnet50/train.py --preset base --data imagenet --auto --out runs/resnet    one GPU
    fleetrun examples/resnet50/train.py --preset base --data imagenet --auto --out runs/resnet  every GPU here
    python examples/resnet50/train.py --help

Of its 108 lines 10 are Fleet's: those with `fleet` in them. Sizes are in config.py, the input pipeline in
pipeline.py; make_images.py makes a small folder of JPEG files to try it with.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from common.ahead import Ahead
from common.options import parser_of, run, settled, strategy_of
from common.peaks import Cost
from common.training import optimizer_of, warm_cosine
from common.watch import Watch
from config import PRESETS, Config
from pipeline import open_data

import fleet


class Block(nn.Module):
    """Three convolutions, narrow in the middle, added to what came in; the stride is in the second one."""

    def __init__(self, before: int, narrow: int, stride: int) -> None:
        super().__init__()
        after = 4 * narrow
        self.conv1, self.norm1 = nn.Conv2d(before, narrow, 1, bias=False), nn.BatchNorm2d(narrow)
        self.conv2, self.norm2 = nn.Conv2d(narrow, narrow, 3, stride, 1, bias=False), nn.BatchNorm2d(narrow)
        self.conv3, self.norm3 = nn.Conv2d(narrow, after, 1, bias=False), nn.BatchNorm2d(after)
        nn.init.zeros_(self.norm3.weight)  # a block begins as nothing but its shortcut
        changes = stride != 1 or before != after
        self.shortcut = nn.Conv2d(before, after, 1, stride, bias=False) if changes else nn.Identity()
        self.shortcut_norm = nn.BatchNorm2d(after) if changes else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        y = F.relu(self.norm1(self.conv1(x)))
        y = F.relu(self.norm2(self.conv2(y)))
        return F.relu(self.norm3(self.conv3(y)) + self.shortcut_norm(self.shortcut(x)))


class ResNet(nn.Module):
    """Pixels [B, H, W, 3] as bytes, and classes [B], to the loss; in evaluation to scores [B, classes]."""

    def __init__(self, config: Config, num_classes: int) -> None:
        super().__init__()
        width, self.smoothing = config.width, config.smoothing
        self.conv, self.norm = nn.Conv2d(3, width, 7, 2, 3, bias=False), nn.BatchNorm2d(width)
        stages, before = [], width
        for number, num_blocks in enumerate(config.blocks):
            narrow, blocks = width << number, []
            for place in range(num_blocks):
                blocks.append(Block(before, narrow, stride=2 if number and not place else 1))
                before = 4 * narrow
            stages.append(nn.Sequential(*blocks))
        self.stages, self.score = nn.ModuleList(stages), nn.Linear(before, num_classes)
        self.register_buffer("mean", torch.tensor([123.675, 116.28, 103.53]).view(3, 1, 1), persistent=False)
        self.register_buffer("deviation", torch.tensor([58.395, 57.12, 57.375]).view(3, 1, 1), persistent=False)
        for one in self.modules():
            if isinstance(one, nn.Conv2d):
                nn.init.kaiming_normal_(one.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, pixels: Tensor, classes: Tensor) -> Tensor:
        x = pixels.permute(0, 3, 1, 2).float()  # channels last already
        x = (x - self.get_buffer("mean")) / self.get_buffer("deviation")
        x = F.max_pool2d(F.relu(self.norm(self.conv(x))), 3, 2, 1)
        for stage in self.stages:
            x = stage(x)
        scores = self.score(x.mean(dim=(2, 3)))
        return F.cross_entropy(scores, classes, label_smoothing=self.smoothing) if self.training else scores


def main(args: argparse.Namespace) -> None:
    config = PRESETS[args.preset]
    settled(args, config)
    fleet.init(is_collective=True, strategy=strategy_of(args, layers=["stages.*"]))
    watch = Watch(args, "images", {"example": "resnet50", "preset": args.preset, "data": args.data})
    train, held, num_classes = open_data(args, config)
    torch.manual_seed(args.seed)
    net = ResNet(config, num_classes)
    args.lr *= args.batch_size * fleet.worker_num() / 256 if args.optimizer == "sgd" else 1
    model: Any = fleet.distributed_model(net)
    optimizer = fleet.distributed_optimizer(optimizer_of(args, net, betas=(0.9, 0.999)))
    schedule = warm_cosine(optimizer, args.warmup, args.steps)
    batches, cost = Ahead(train), Cost(lambda: ResNet(config, num_classes))
    whole_run = {"model": model, "optimizer": optimizer, "scheduler": schedule, "data": batches}
    with fleet.Checkpoint(args.out / "checkpoints", **whole_run, extras={"watch": watch}, resume=args.resume) as saved:
        for pixels, classes in watch.over(batches):
            loss = model(pixels, classes)
            model.scale_loss(loss).backward()
            optimizer.step()
            optimizer.zero_grad()
            schedule.step()
            watch.note(loss, len(classes), 0, cost(pixels, classes))
            if watch.is_time(args.eval_every):
                with watch.paused():
                    watch.evaluated(evaluate(model, held))
            if watch.is_time(args.save_every):
                saved.save(watch.step)
        if watch.is_unsaved(saved):
            saved.save(watch.step)
    found = {} if args.measure else evaluate(model, held)
    watch.evaluated(found)
    watch.finish(found)


def evaluate(model: nn.Module, held: fleet.data.Shard) -> dict[str, float]:
    """The share of images whose class is the first guess, or among the first five."""

    def guesses(model: nn.Module, batch: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        pixels, classes = batch[0].to(fleet.device), batch[1].to(fleet.device)
        return model(pixels, classes), classes

    def top5(scores: Tensor, classes: Tensor) -> Tensor:
        best = scores.topk(min(5, scores.shape[1]), dim=1).indices
        return (best == classes[:, None]).any(dim=1).float().mean()

    metrics: dict[str, Any] = {"held_loss": F.cross_entropy, "top1": fleet.metrics.Accuracy(), "top5": top5}
    return fleet.evaluate(model, held, metrics, step=guesses)


if __name__ == "__main__":
    parser = parser_of(__doc__, PRESETS, "a folder with train/CLASS/*.jpg and val/CLASS/*.jpg, or synthetic[:IMAGES]")
    parser.add_argument("--processes", type=int, help="that decode, of each worker [default: its share of the cores]")
    parser.add_argument("--channels-last", action="store_true", help="keep convolutions in the order that GPUs prefer")
    parser.add_argument("--sync-batch-norm", action="store_true", help="statistics over the images of all workers")
    run(main, parser.parse_args())
