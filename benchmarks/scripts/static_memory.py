"""One step of a 20-layer convolution program; prints the bytes that it took beyond what was there before it.

usage: static_memory.py plain|optimized
"""

from __future__ import annotations

import resource
import sys

import numpy as np
import torch

import fleet_programs as static
from fleet_programs import layers

NUM_LAYERS, CHANNELS, SIZE, BATCH = 20, 16, 64, 16


def build() -> static.Variable:
    """Convolution, bias, relu, twenty times; global pooling; softmax loss."""
    image = static.data("image", [None, 3, SIZE, SIZE])
    label = static.data("label", [None, 1], "int64")
    hidden = image
    for _ in range(NUM_LAYERS):
        hidden = layers.conv2d(hidden, CHANNELS, 3, padding=1, act="relu")
    pooled = layers.pool2d(hidden, pool_type="avg", global_pooling=True)
    prediction = layers.fc(pooled, 10, act="softmax")
    return layers.mean(layers.cross_entropy(prediction, label))


def main(how: str) -> None:
    torch.set_num_threads(1)
    loss = build()
    static.optimizer.SGD(0.01).minimize(loss)
    if how == "optimized":
        static.memory_optimize(static.default_main_program(), skip_grads=True)
    exe = static.Executor(static.CPUPlace())
    exe.run(static.default_startup_program())
    rng = np.random.default_rng(0)
    image = rng.standard_normal((BATCH, 3, SIZE, SIZE), np.float32)
    label = rng.integers(0, 10, (BATCH, 1))
    # A small step first: what libraries allocate once is not the program's.
    exe.run(feed={"image": image[:1], "label": label[:1]}, fetch_list=[loss])
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    (value,) = exe.run(feed={"image": image, "label": label}, fetch_list=[loss])
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print((after - before) * 1024, float(value[0]))


if __name__ == "__main__":
    main(sys.argv[1])
