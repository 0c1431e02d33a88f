"""A BERT encoder with a masked-LM head as a static program: one process or all-reduce, on CPUs or GPUs.

    python examples/static_bert.py --tiny                                               a small one, seconds
    fleetrun --nproc_per_node 2 --device cpu examples/static_bert.py --tiny             two workers
    fleetrun --gpus 0,1 examples/static_bert.py --run compiled                          BERT-base, two GPUs

Tokens are made up: each sentence counts on from a random word, and some of its words are hidden. There is no dropout.
"""

import argparse
from dataclasses import dataclass

import numpy as np
from static_resnet50 import RUNS, compiled

import fleet
import fleet_programs as static
from fleet_programs import ParamAttr, Variable, layers

HIDDEN_WORD = 0
Feed = dict[str, np.ndarray]


@dataclass(frozen=True)
class Size:
    """How large the encoder is, and what goes in."""

    num_layers: int = 12
    width: int = 768
    num_heads: int = 12
    num_words: int = 30522
    length: int = 128


TINY = Size(num_layers=2, width=32, num_heads=4, num_words=64, length=16)


def linear(x: Variable, name: str, size: int, act: str | None = None) -> Variable:
    """A fully connected layer over the last dimension."""
    weights = ParamAttr(f"{name}.weight"), ParamAttr(f"{name}.bias")
    return layers.fc(x, size, num_flatten_dims=2, param_attr=weights[0], bias_attr=weights[1], act=act)


def normed(x: Variable, name: str) -> Variable:
    """Layer norm over the last dimension."""
    weights = ParamAttr(f"{name}.weight"), ParamAttr(f"{name}.bias")
    return layers.layer_norm(x, begin_norm_axis=2, epsilon=1e-12, param_attr=weights[0], bias_attr=weights[1])


def layer(x: Variable, name: str, size: Size) -> Variable:
    """Attention, then two linear layers; each is added to what went in, and normalised."""
    heads = layers.reshape(linear(x, f"{name}.qkv", 3 * size.width), [0, 0, 3, size.num_heads, -1])
    q, k, v = layers.unstack(layers.transpose(heads, [2, 0, 3, 1, 4]), 0)
    seen = layers.transpose(layers.scaled_dot_product_attention(q, k, v), [0, 2, 1, 3])
    seen = linear(layers.reshape(seen, [0, 0, size.width]), f"{name}.out", size.width)
    x = normed(layers.elementwise_add(x, seen), f"{name}.norm1")
    inner = linear(x, f"{name}.inner", 4 * size.width, act="gelu")
    return normed(layers.elementwise_add(x, linear(inner, f"{name}.outer", size.width)), f"{name}.norm2")


def network(size: Size, dtype: str = "float32") -> tuple[Variable, Variable]:
    """The loss of naming every word, and the scores; words are fed as x, what they really are as y."""
    x = static.data("x", [None, size.length], "int64")
    y = static.data("y", [None, size.length], "int64")
    rows = [size.num_words, size.width]
    hidden = layers.embedding_v2(x, rows, param_attr=ParamAttr("words.weight"), dtype=dtype)
    places = layers.create_parameter([size.length, size.width], dtype, "places.weight")
    hidden = normed(layers.elementwise_add(hidden, places, axis=1), "norm")
    for number in range(size.num_layers):
        hidden = layer(hidden, f"layers.{number}", size)
    hidden = normed(linear(hidden, "head", size.width, act="gelu"), "head_norm")
    words = static.default_main_program().global_block().var("words.weight")  # the same rows say how words read
    scores = layers.matmul(layers.reshape(hidden, [-1, size.width]), words, transpose_y=True)
    loss = layers.softmax_with_cross_entropy(scores, layers.reshape(y, [-1, 1]))
    return layers.mean(loss), scores


def sentences(count: int, size: Size, seed: int) -> Feed:
    """Words that count on, of which one in seven is hidden."""
    rng = np.random.default_rng(seed)
    first = rng.integers(1, size.num_words, (count, 1))
    y = 1 + (first + np.arange(size.length)) % (size.num_words - 1)
    return {"x": np.where(rng.random(y.shape) < 1 / 7, HIDDEN_WORD, y), "y": y}


def main(args: argparse.Namespace) -> None:
    size = TINY if args.tiny else Size()
    fleet.init(is_collective=True)
    loss, scores = network(size)
    program = static.default_main_program()
    evaluation = program.clone(for_test=True)
    fleet.distributed_optimizer(static.optimizer.AdamW(args.lr)).minimize(loss)
    executor = static.Executor(fleet.device)
    executor.run(static.default_startup_program())
    trained = compiled(program, args.run)
    bar = fleet.progress(range(args.steps), "training", enabled=fleet.is_first_worker())
    for step in bar:
        seed = step * fleet.worker_num() + fleet.worker_index()
        (cost,) = executor.run(trained, feed=sentences(args.batch_size, size, seed), fetch_list=[loss])
        if step % 10 == 0:
            bar.show(loss=float(cost[0]))
    unseen = sentences(args.batch_size, size, seed=2**32)
    (found,) = executor.run(evaluation, feed=unseen, fetch_list=[scores])
    if fleet.is_first_worker():
        is_hidden = unseen["x"].reshape(-1) == HIDDEN_WORD
        right = float((found.argmax(axis=1) == unseen["y"].reshape(-1))[is_hidden].mean())
        print(f"{fleet.worker_num()} worker(s): loss {cost[0]:.4f}, hidden words that it names {right:.3f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="train a BERT encoder as a static program")
    parser.add_argument("--tiny", action="store_true", help="two layers of 32, 64 words")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--batch-size", type=int, default=32, help="of each worker")
    parser.add_argument("--lr", type=float, default=3e-3)
    parser.add_argument("--run", choices=RUNS, default="plain", help="through torch.compile, or a CUDA graph")
    main(parser.parse_args())
