"""Tensor layers of one input and the plain functions of torch that they must equal: name, layer, function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.nn.functional import pad

from fleet_programs import layers
from program_support.static_ops import normal

X = normal(4, 3, 2)
Build = Callable[..., Any]

TENSOR_CASES: list[tuple[str, Build, Build]] = [
    ("reshape", lambda x: layers.reshape(x, [-1, 6]), lambda x: x.reshape(4, 6)),
    ("reshape 0", lambda x: layers.reshape(x, [0, 2, -1]), lambda x: x.reshape(4, 2, 3)),
    ("reshape act", lambda x: layers.reshape(x, [0, 6], act="relu"), lambda x: x.reshape(4, 6).relu()),
    ("flatten 0", lambda x: layers.flatten(x, 0), lambda x: x.reshape(1, 24)),
    ("flatten 1", lambda x: layers.flatten(x, 1), lambda x: x.reshape(4, 6)),
    ("flatten 2", lambda x: layers.flatten(x, 2), lambda x: x.reshape(12, 2)),
    ("unsqueeze", lambda x: layers.unsqueeze(x, [1, -1]), lambda x: x.reshape(4, 1, 3, 2, 1)),
    ("squeeze", lambda x: layers.squeeze(layers.unsqueeze(x, 1), [1]), lambda x: x * 1),
    ("squeeze all", lambda x: layers.squeeze(layers.unsqueeze(x, [1, 3]), []), lambda x: x * 1),
    ("transpose", lambda x: layers.transpose(x, [2, 0, 1]), lambda x: x.permute(2, 0, 1)),
    ("reverse", lambda x: layers.reverse(x, [0, 2]), lambda x: x.flip(0, 2)),
    ("concat", lambda x: layers.concat([x, x * 2, x], 1), lambda x: torch.cat([x, x * 2, x], 1)),
    ("concat batch", lambda x: layers.concat([x, x * 2], 0), lambda x: torch.cat([x, x * 2], 0)),
    ("concat one", lambda x: layers.concat(x, -1), lambda x: x * 1),
    ("split", lambda x: layers.split(x, 3, 1)[2], lambda x: x[:, 2:3]),
    ("split sizes", lambda x: layers.split(x, [1, -1], 1)[1] * 3, lambda x: x[:, 1:] * 3),
    ("split batch", lambda x: layers.split(x, 2, 0)[1], lambda x: x[2:]),
    ("split rest", lambda x: layers.split(x, [1, -1], 0)[1], lambda x: x[1:]),
    ("stack", lambda x: layers.stack([x, x * x], 1), lambda x: torch.stack([x, x * x], 1)),
    ("unstack", lambda x: layers.unstack(x, 1)[1], lambda x: x[:, 1]),
    ("expand", lambda x: layers.expand(x, [2, 1, 3]), lambda x: x.repeat(2, 1, 3)),
    ("slice", lambda x: layers.slice(x, [1, 2], [-2, 0], [10, 1]), lambda x: x[:, -2:, :1]),
    ("slice batch", lambda x: layers.slice(x, [0], [1], [-1]), lambda x: x[1:-1]),
    ("pad", lambda x: layers.pad(x, [1, 0, 0, 2, 0, 0], 5.0), lambda x: pad(x, (0, 0, 0, 2, 1, 0), value=5.0)),
    ("crop", lambda x: layers.crop(x, [-1, 2, 1], [1, 1, 0]), lambda x: x[1:, 1:3, :1]),
    ("clip", lambda x: layers.clip(x, -0.5, 0.5), lambda x: x.clamp(-0.5, 0.5)),
    ("clip_by_norm", lambda x: layers.clip_by_norm(x, 1.5), lambda x: x * 1.5 / x.norm()),
    ("clip_by_norm small", lambda x: layers.clip_by_norm(x, 1e3), lambda x: x * 1),
    ("cumsum", lambda x: layers.cumsum(x, 1), lambda x: x.cumsum(1)),
    ("cumsum back", lambda x: layers.cumsum(x, 1, reverse=True), lambda x: x.flip(1).cumsum(1).flip(1)),
    ("cumsum without", lambda x: layers.cumsum(x, exclusive=True), lambda x: x.cumsum(-1) - x),
    ("sign", lambda x: layers.sign(x), lambda x: x.sign()),
    ("sums", lambda x: layers.sums([x, x * 2, x]), lambda x: x * 4),
    ("assign", lambda x: layers.assign(x), lambda x: x * 1),
    ("cast", lambda x: layers.cast(layers.cast(x, "float32"), "float64"), lambda x: x.float().double()),
    ("cast same", lambda x: layers.cast(x, "float64"), lambda x: x * 1),
    ("topk", lambda x: layers.topk(x, 1)[0], lambda x: x.topk(1)[0]),
    ("topk 2", lambda x: layers.topk(layers.flatten(x), 4)[0], lambda x: x.flatten(1).topk(4)[0]),
    ("argsort", lambda x: layers.argsort(x, 1)[0], lambda x: x.sort(1)[0]),
    ("mean", lambda x: layers.mean(x), lambda x: x.mean().view(1)),
    ("mean column", lambda x: layers.mean(layers.reshape(x, [-1, 1])), lambda x: x.mean().view(1)),
    ("mean vector", lambda x: layers.mean(layers.reshape(x, [-1])), lambda x: x.mean().view(1)),
]  # fmt: skip
for _name, _function in {
    "reduce_sum": torch.sum,
    "reduce_mean": torch.mean,
    "reduce_max": torch.amax,
    "reduce_min": torch.amin,
}.items():
    _layer = getattr(layers, _name)
    TENSOR_CASES += [
        (_name, lambda x, f=_layer: f(x), lambda x, f=_function: f(x, (0, 1, 2)).view(1)),
        (f"{_name} 1", lambda x, f=_layer: f(x, 1), lambda x, f=_function: f(x, 1)),
        (f"{_name} keep", lambda x, f=_layer: f(x, [0, -1], True), lambda x, f=_function: f(x, (0, 2), keepdim=True)),
        (f"{_name} 0 2", lambda x, f=_layer: f(x, [2, 0]), lambda x, f=_function: f(x, (0, 2))),
    ]
TENSOR_CASES += [
    ("reduce_prod", lambda x: layers.reduce_prod(x, [1, 2]), lambda x: x.flatten(1).prod(1)),
    (
        "reduce_prod 0 2",
        lambda x: layers.reduce_prod(layers.relu(x), [0, 2], True),
        lambda x: x.relu().prod(2, True).prod(0, True),
    ),
    ("reduce_prod all", lambda x: layers.reduce_prod(x), lambda x: x.prod().view(1)),
]
