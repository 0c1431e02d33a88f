"""ResNet-50 and the BERT encoder of examples/static_resnet50.py and static_bert.py in torch, weight for weight.

`values(module)` are its weights by the names of the program, so that both can begin with the same.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional


class Bottleneck(nn.Module):
    """1x1, 3x3 and 1x1 beside a way around them."""

    def __init__(self, num_in: int, width: int, stride: int) -> None:
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(num_in, width, 1, bias=False), nn.BatchNorm2d(width)
        self.conv2, self.bn2 = nn.Conv2d(width, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width)
        self.conv3, self.bn3 = nn.Conv2d(width, 4 * width, 1, bias=False), nn.BatchNorm2d(4 * width)
        self.downsample: nn.Module = nn.Identity()
        if stride > 1 or num_in != 4 * width:
            around = nn.Conv2d(num_in, 4 * width, 1, stride, bias=False)
            self.downsample = nn.Sequential(around, nn.BatchNorm2d(4 * width))

    def forward(self, x: Tensor) -> Tensor:
        y = functional.relu(self.bn1(self.conv1(x)), inplace=True)
        y = functional.relu(self.bn2(self.conv2(y)), inplace=True)
        return functional.relu(self.downsample(x) + self.bn3(self.conv3(y)), inplace=True)


class ResNet(nn.Module):
    """Images and labels to the loss."""

    def __init__(self, blocks: Sequence[int], width: int, num_classes: int) -> None:
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(3, width, 7, 2, 3, bias=False), nn.BatchNorm2d(width)
        num_in, stages = width, []
        for number, count in enumerate(blocks):
            strides = [2 if number and not index else 1 for index in range(count)]
            made = [
                Bottleneck(4 * (width << number) if i else num_in, width << number, s) for i, s in enumerate(strides)
            ]
            num_in = 4 * (width << number)
            stages.append(nn.Sequential(*made))
        for number, stage in enumerate(stages):
            self.add_module(f"layer{number + 1}", stage)
        self.num_stages = len(stages)
        self.fc = nn.Linear(num_in, num_classes)

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        x = functional.max_pool2d(functional.relu(self.bn1(self.conv1(x)), inplace=True), 3, 2, 1)
        for number in range(self.num_stages):
            x = self.get_submodule(f"layer{number + 1}")(x)
        return functional.cross_entropy(self.fc(x.mean((2, 3))), y.view(-1))


class Layer(nn.Module):
    """Attention, then two linear layers."""

    def __init__(self, width: int, num_heads: int) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.inner, self.outer = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.norm1, self.norm2 = nn.LayerNorm(width, 1e-12), nn.LayerNorm(width, 1e-12)

    def forward(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        heads = self.qkv(x).view(batch, length, 3, self.num_heads, -1).permute(2, 0, 3, 1, 4)
        seen = functional.scaled_dot_product_attention(*heads.unbind())
        x = self.norm1(x + self.out(seen.transpose(1, 2).reshape(batch, length, width)))
        found: Tensor = self.norm2(x + self.outer(functional.gelu(self.inner(x))))
        return found


class Bert(nn.Module):
    """Words to the loss of naming what they really are."""

    def __init__(self, num_layers: int, width: int, num_heads: int, num_words: int, length: int) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(num_words, width), nn.Embedding(length, width)
        for table in (self.words, self.places):
            nn.init.normal_(table.weight, std=0.02)
        self.norm, self.head_norm = nn.LayerNorm(width, 1e-12), nn.LayerNorm(width, 1e-12)
        self.layers = nn.ModuleList(Layer(width, num_heads) for _ in range(num_layers))
        self.head = nn.Linear(width, width)

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        hidden = self.norm(self.words(x) + self.places.weight)
        for layer in self.layers:
            hidden = layer(hidden)
        hidden = self.head_norm(functional.gelu(self.head(hidden)))
        return functional.cross_entropy(functional.linear(hidden, self.words.weight).flatten(0, 1), y.view(-1))


def values(module: nn.Module) -> dict[str, np.ndarray]:
    """The weights by the names of the program; a linear layer of a program has its matrix the other way round."""
    turned = {f"{name}.weight" for name, one in module.named_modules() if isinstance(one, nn.Linear)}
    found = {name: value for name, value in module.state_dict().items() if not name.endswith("num_batches_tracked")}
    return {
        name: (one.t() if name in turned else one).detach().cpu().float().numpy().copy() for name, one in found.items()
    }


def step_of(module: nn.Module, optimizer: torch.optim.Optimizer, x: Tensor, y: Tensor) -> Tensor:
    """One step of training; the loss."""
    optimizer.zero_grad()
    loss: Tensor = module(x, y)
    loss.backward()
    optimizer.step()
    return loss.detach()
