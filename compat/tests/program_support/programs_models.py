"""The five programs that are trained in every way there is, and their batches."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

import fleet_programs as static
from fleet_programs import ParamAttr, layers, optimizer
from fleet_programs.executor.lod import LoDTensor
from fleet_programs.expressions import names
from fleet_programs.program.program import Program, program_guard
from fleet_programs.program.variable import Variable

Feed = dict[str, Any]
Minimize = Callable[[Variable], object]

SEED = 7
BATCH = 16
SLOTS, NUMBERS = 26, 13
IDS = 60
WORDS = ("first", "second", "third", "fourth")


DEFAULTS: dict[str, Callable[[], Any]] = {
    "fit_a_line": partial(optimizer.SGD, 0.05),
    "mlp": partial(optimizer.SGD, 0.3),
    "ctr": partial(optimizer.Adagrad, 0.05),
    "word2vec": partial(optimizer.SGD, 1.0),
    "conv": partial(optimizer.Adam, 0.01),
}
"""What each is trained with if nothing else is asked for."""


@dataclass(frozen=True)
class Model:
    """A trained program. Whoever runs it takes a copy: `transpile` changes programs in place."""

    main: Program
    startup: Program
    loss: str
    batch: Callable[[int, int], Feed]
    """What a worker is fed in a step."""

    def joined(self, step: int, num_workers: int = 2) -> Feed:
        """What one process is fed that stands for several workers."""
        return join([self.batch(step, worker) for worker in range(num_workers)])


def join(feeds: Sequence[Mapping[str, Any]]) -> Feed:
    """One batch of several."""
    out: Feed = {}
    for name, first in feeds[0].items():
        parts = [feed[name] for feed in feeds]
        if isinstance(first, LoDTensor):
            lengths = np.concatenate([np.diff(part.offsets.numpy()) for part in parts])
            out[name] = LoDTensor(np.concatenate([part.values.numpy() for part in parts]), _offsets(lengths))
        else:
            out[name] = np.concatenate(parts)
    return out


def make(build: Callable[[], Variable], minimize: Minimize, batch: Callable[[int, int], Feed]) -> Model:
    """A model of its layers, its optimizer and its data."""
    main, startup = Program(), Program()
    main.random_seed = startup.random_seed = SEED
    with names.guard(), program_guard(main, startup):
        loss = build()
        minimize(loss)
    return Model(main, startup, loss.name, batch)


def by(kind: Callable[..., Any], *args: Any, **named: Any) -> Minimize:
    """An optimizer that is made where the program is."""
    return lambda loss: kind(*args, **named).minimize(loss)


def fit_a_line(minimize: Minimize | None = None) -> Model:
    """13 numbers to 1."""

    def build() -> Variable:
        x, y = static.data("x", [None, 13]), static.data("y", [None, 1])
        return layers.mean(layers.square_error_cost(layers.fc(x, 1), y))

    def batch(step: int, worker: int) -> Feed:
        x = _random(step, worker).standard_normal((BATCH, 13)).astype("float32")
        return {"x": x, "y": x[:, :3].sum(1, keepdims=True) + 1}

    return make(build, minimize or by(DEFAULTS["fit_a_line"]), batch)


def mlp(minimize: Minimize | None = None, hidden: int = 128, *, has_norm: bool = False) -> Model:
    """The one of the reference's first page: 32 numbers, two hidden layers, 2 classes."""

    def build() -> Variable:
        x, y = static.data("x", [None, 32]), static.data("y", [None, 1], "int64")
        out = layers.fc(x, hidden, act="tanh")
        out = layers.fc(layers.batch_norm(out) if has_norm else out, hidden, act="tanh")
        return layers.mean(layers.cross_entropy(layers.fc([out], 2, act="softmax"), y))

    def batch(step: int, worker: int) -> Feed:
        x = _random(step, worker).standard_normal((BATCH, 32)).astype("float32")
        return {"x": x, "y": (x[:, :4].sum(1, keepdims=True) > 0).astype("int64")}

    return make(build, minimize or by(DEFAULTS["mlp"]), batch)


def ctr(minimize: Minimize | None = None, hidden: int = 64) -> Model:
    """26 slots that share a table, a ragged one with its own, 13 numbers."""

    def build() -> Variable:
        slots = [static.data(f"slot_{i}", [None, 1], "int64") for i in range(SLOTS)]
        history = static.data("history", [None, 1], "int64", lod_level=1)
        numbers, y = static.data("numbers", [None, NUMBERS]), static.data("y", [None, 1], "int64")
        shared = ParamAttr(name="slots_w", initializer=static.initializer.Uniform(-0.1, 0.1))
        rows = [layers.embedding(slot, [IDS, 8], is_sparse=True, param_attr=shared) for slot in slots]
        bag = layers.sequence_pool(layers.embedding(history, [IDS, 4], is_sparse=True), "sum")
        out = layers.concat([*rows, bag, numbers], axis=1)
        for _ in range(2):
            out = layers.fc(out, hidden, act="relu")
        return layers.mean(layers.cross_entropy(layers.fc(out, 2, act="softmax"), y))

    def batch(step: int, worker: int) -> Feed:
        random = _random(step, worker)
        ids = random.integers(0, IDS, (SLOTS, BATCH, 1))
        # In some steps one worker has no history at all, in some both.
        lengths = random.integers(0, 4, BATCH) * (step % 4 < 2 + worker)
        numbers = random.standard_normal((BATCH, NUMBERS)).astype("float32")
        history = LoDTensor(random.integers(0, IDS, (lengths.sum(), 1)), _offsets(lengths))
        clicked = (ids[0] % 2 + numbers[:, :1] > 0.5).astype("int64")
        return {**{f"slot_{i}": ids[i] for i in range(SLOTS)}, "history": history, "numbers": numbers, "y": clicked}

    return make(build, minimize or by(DEFAULTS["ctr"]), batch)


def word2vec(minimize: Minimize | None = None) -> Model:
    """Four words, whose rows share a table, foretell the next."""

    def build() -> Variable:
        words = [static.data(name, [None, 1], "int64") for name in WORDS]
        rows = [layers.embedding(word, [IDS, 16], is_sparse=True, param_attr="shared_w") for word in words]
        hidden = layers.fc(layers.concat(rows, axis=1), 32, act="sigmoid")
        following = static.data("next", [None, 1], "int64")
        return layers.mean(layers.cross_entropy(layers.fc(hidden, IDS, act="softmax"), following))

    def batch(step: int, worker: int) -> Feed:
        begin = _random(step, worker).integers(0, 8, (BATCH, 1))
        return {**{name: (begin + i) % IDS for i, name in enumerate(WORDS)}, "next": (begin + len(WORDS)) % IDS}

    return make(build, minimize or by(DEFAULTS["word2vec"]), batch)


def conv(minimize: Minimize | None = None) -> Model:
    """Pictures of MNIST's shape: two convolutions with pools, 10 classes."""

    def build() -> Variable:
        x, y = static.data("img", [None, 1, 28, 28]), static.data("label", [None, 1], "int64")
        out = layers.pool2d(layers.conv2d(x, 4, 5, act="relu"), 2, "max", 2)
        out = layers.pool2d(layers.conv2d(out, 8, 5, act="relu"), 2, "max", 2)
        return layers.mean(layers.cross_entropy(layers.fc(out, 10, act="softmax"), y))

    def batch(step: int, worker: int) -> Feed:
        random = _random(step, worker)
        label = random.integers(0, 10, (BATCH, 1))
        image = random.standard_normal((BATCH, 1, 28, 28)).astype("float32")
        for one, digit in zip(image, label[:, 0], strict=True):
            one[0, 2 * digit + 2 : 2 * digit + 6] += 2
        return {"img": image, "label": label}

    return make(build, minimize or by(DEFAULTS["conv"]), batch)


def _by_a_rate_of_branches(loss: Variable) -> object:
    """Adagrad at a rate that a branch writes, as schedules by hand do."""
    step = layers.autoincreased_step_counter("steps", begin=0)
    rate = layers.create_global_var([1], 0.0, "float32", persistable=True, name="rate")
    small, large = (layers.fill_constant([1], "float32", value) for value in (0.02, 0.1))
    layers.cond(
        step < layers.fill_constant([1], "int64", 6),
        lambda: [layers.assign(large, output=rate)][:0] or None,
        lambda: [layers.assign(small, output=rate)][:0] or None,
    )
    return optimizer.Adagrad(rate).minimize(loss)


def looped(minimize: Minimize | None = None) -> Model:
    """A recurrent layer over a number of words that each batch decides, in a loop; rows are looked up before it."""
    minimize = minimize or _by_a_rate_of_branches

    def build() -> Variable:
        words, y = layers.data("words", [5], dtype="int64"), layers.data("y", [1])
        turns = layers.data("turns", [1], dtype="int64", append_batch_size=False)
        rows = layers.transpose(layers.embedding_v2(words, [IDS, 8], is_sparse=True, param_attr="rows"), [1, 0, 2])
        begin = layers.fill_constant([1], "int64", 0)
        states = layers.create_array("float32")

        def body(i: Variable, state: Variable, states: Variable) -> tuple[Variable, ...]:
            word = layers.squeeze(layers.gather(rows, i), [0])
            state = layers.cond(
                layers.reduce_sum(state) > 100.0,
                lambda: state,
                lambda: layers.fc([state, word], 8, act="tanh", param_attr=["u", "w"], bias_attr="b"),
            )
            return i + 1, state, layers.array_write(state, i, states)

        first = layers.fc(layers.squeeze(layers.slice(rows, [0], [0], [1]), [0]), 8)
        _, state, states = layers.while_loop(lambda i, *_: i < turns, body, [begin, first, states])
        joined, _ = layers.tensor_array_to_tensor(states, axis=0, use_stack=True)
        out = layers.fc(layers.concat([state, layers.reduce_max(joined, dim=0)], axis=1), 1)
        return layers.mean(layers.square_error_cost(out, y))

    def batch(step: int, worker: int) -> Feed:
        random = _random(step, worker)
        words = random.integers(0, IDS, (BATCH, 5))
        y = (words[:, :2].sum(1, keepdims=True) % 7 / 7.0).astype(np.float32)
        return {"words": words, "y": y, "turns": np.array([1 + step % 5])}

    return make(build, minimize, batch)


MODELS: dict[str, Callable[..., Model]] = {
    "fit_a_line": fit_a_line,
    "mlp": mlp,
    "ctr": ctr,
    "word2vec": word2vec,
    "conv": conv,
}


def train_here(model: Model, steps: Sequence[int], num_workers: int = 2) -> list[float]:
    """The losses of one process that is fed the batches of all workers."""
    executor, scope = static.Executor(), static.Scope()
    executor.run(model.startup, scope=scope)
    return go_on_here(model, executor, scope, steps, num_workers)


def go_on_here(
    model: Model, executor: static.Executor, scope: static.Scope, steps: Sequence[int], num_workers: int = 2
) -> list[float]:
    """More steps of one process."""
    return [
        float(executor.run(model.main, model.joined(step, num_workers), [model.loss], scope)[0][0]) for step in steps
    ]


def _random(step: int, worker: int) -> np.random.Generator:
    return np.random.default_rng([step, worker])


def _offsets(lengths: Any) -> Any:
    return np.concatenate([[0], np.cumsum(lengths)]).astype("int64")
