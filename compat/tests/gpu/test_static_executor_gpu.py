"""Whole programs on a GPU: the same training as on the CPU, graphs, torch.compile, memory, and no waiting."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch

from fleet_programs import layers, optimizer
from fleet_programs.executor.executor import Executor
from fleet_programs.executor.lod import LoDTensor
from fleet_programs.executor.memory import memory_optimize
from fleet_programs.executor.options import BuildStrategy
from fleet_programs.executor.parallel import CompiledProgram
from fleet_programs.executor.place import CPUPlace, CUDAPlace
from fleet_programs.executor.scope import Scope
from fleet_programs.layers.io import fed
from fleet_programs.program.variable import Variable
from program_support.programs import Built, building

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="this machine has no GPU")]

Feed = dict[str, Any]
GPU = CUDAPlace(0)


@pytest.fixture(autouse=True)
def full_precision() -> Iterator[None]:
    """Convolutions of a GPU round to ten bits by default, which no tolerance of ours allows for."""
    with torch.backends.cudnn.flags(enabled=True, deterministic=True, allow_tf32=False):
        yield


@dataclass(frozen=True)
class Model:
    """A small program: what builds its loss, what trains it, and its batches."""

    build: Callable[[], Variable]
    optimizer: Callable[[], Any]
    batch: Callable[[int, int], Feed]
    """Of a step and a number of rows."""

    def built(self) -> tuple[Built, Variable]:
        with building() as built:
            built.main.random_seed = built.startup.random_seed = 11
            loss = self.build()
            self.optimizer().minimize(loss)
        return built, loss


def classified(guess: Variable) -> Variable:
    return layers.mean(layers.cross_entropy(guess, fed("y", [-1, 1], "int64")))


def mlp(dropout: float = 0.0) -> Variable:
    hidden = layers.fc(fed("x", [-1, 12]), 16, act="tanh")
    if dropout:
        hidden = layers.dropout(hidden, dropout, dropout_implementation="upscale_in_train")
    return classified(layers.fc(layers.fc(hidden, 8, act="relu"), 4, act="softmax"))


def convolutions(depth: int = 1, channels: int = 6, size: int = 8) -> Variable:
    x = fed("x", [-1, 1, size, size])
    for _ in range(depth):
        x = layers.conv2d(x, channels, 3, padding=1, act="relu")
    x = layers.dropout(layers.batch_norm(layers.pool2d(x, 2, "max", 2)), 0.0)
    return classified(layers.fc(x, 4, act="softmax"))


def lookup() -> Variable:
    rows = layers.embedding(fed("ids", [-1, 3, 1], "int64"), [20, 8], is_sparse=True, padding_idx=0)
    return classified(layers.fc(rows, 4, act="softmax"))


def pooled() -> Variable:
    rows = layers.embedding(fed("ids", [-1, 1], "int64", lod_level=1), [20, 8])
    parts = [layers.sequence_pool(rows, kind) for kind in ("sum", "max")]
    return classified(layers.fc(layers.concat(parts, axis=1), 4, act="softmax"))


def line() -> Variable:
    guess = layers.fc(fed("x", [-1, 12]), 1)
    return layers.mean(layers.square_error_cost(guess, layers.cast(fed("y", [-1, 1], "int64"), "float32")))


def numbers(shape: tuple[int, ...], step: int, rows: int) -> Feed:
    rng = np.random.default_rng(step)
    return {"x": rng.normal(size=(rows, *shape)).astype(np.float32), "y": rng.integers(0, 4, (rows, 1))}


def words(step: int, rows: int) -> Feed:
    rng = np.random.default_rng(step)
    return {"ids": rng.integers(0, 20, (rows, 3, 1)), "y": rng.integers(0, 4, (rows, 1))}


def sentences(step: int, rows: int) -> Feed:
    rng = np.random.default_rng(step)
    offsets = np.cumsum([0, *rng.integers(0, 5, rows)])
    ids = rng.integers(0, 20, (int(offsets[-1]), 1))
    return {"ids": LoDTensor(ids, offsets), "y": rng.integers(0, 4, (rows, 1))}


VECTORS, IMAGES = partial(numbers, (12,)), partial(numbers, (1, 8, 8))

MODELS = {
    "mlp": Model(mlp, lambda: optimizer.Adam(0.01), VECTORS),
    "conv": Model(convolutions, lambda: optimizer.Momentum(0.05, 0.9), IMAGES),
    "sparse": Model(lookup, lambda: optimizer.SGD(0.1), words),
    "sparse adam": Model(lookup, lambda: optimizer.Adam(0.01), words),
    "pooled": Model(pooled, lambda: optimizer.Adam(0.01), sentences),
    "line": Model(line, lambda: optimizer.SGD(layers.exponential_decay(0.05, 2, 0.9)), VECTORS),
}


def train(
    model: Model, place: object, rows: list[int], build: BuildStrategy | None = None
) -> tuple[list[float], dict[str, Any]]:
    """The loss of each step, and what is in the scope in the end."""
    built, loss = model.built()
    program = built.main if build is None else CompiledProgram(built.main, build)
    exe, scope = Executor(place), Scope()
    exe.run(built.startup, scope=scope)
    losses = [float(exe.run(program, model.batch(step, count), [loss], scope)[0][0]) for step, count in enumerate(rows)]
    return losses, {name: tensor.numpy(force=True) for name, tensor in scope.tensors.items()}


def close(one: tuple[list[float], dict[str, Any]], other: tuple[list[float], dict[str, Any]], tolerance: float) -> None:
    np.testing.assert_allclose(one[0], other[0], rtol=tolerance, atol=tolerance)
    assert one[1].keys() == other[1].keys()
    for name, value in one[1].items():
        np.testing.assert_allclose(value, other[1][name], rtol=tolerance, atol=tolerance, err_msg=name)


@pytest.mark.parametrize("name", MODELS)
def test_training_equals_that_on_the_cpu(name: str) -> None:
    rows = [16, 16, 7, 16, 16]
    on_gpu = train(MODELS[name], GPU, rows)
    close(on_gpu, train(MODELS[name], CPUPlace(), rows), 1e-4)
    assert on_gpu[0][0] != on_gpu[0][-1]


GRAPHED = {
    "mlp": MODELS["mlp"],
    "line": MODELS["line"],
    "conv": MODELS["conv"],
    "dropout": Model(partial(mlp, 0.4), lambda: optimizer.Adam(layers.exponential_decay(0.01, 2, 0.9)), VECTORS),
}


@pytest.mark.parametrize("name", GRAPHED)
def test_a_graph_equals_the_plain_program(name: str) -> None:
    """Over ten steps whose batches have three sizes, each recorded when it is first met."""
    rows = [16, 16, 5, 16, 5, 5, 9, 16, 9, 5]
    plain = train(GRAPHED[name], GPU, rows)
    close(train(GRAPHED[name], GPU, rows, BuildStrategy(cuda_graph=True)), plain, 1e-6)


def test_a_graph_is_recorded_once_for_each_size() -> None:
    built, loss = MODELS["mlp"].built()
    program = CompiledProgram(built.main, BuildStrategy(cuda_graph=True))
    exe, scope = Executor(GPU), Scope()
    exe.run(built.startup, scope=scope)
    for step, rows in enumerate([4, 8, 4, 8]):
        exe.run(program, VECTORS(step, rows), [loss], scope)
    (graphs,) = [
        ready.step.function._graphs for ready in exe._steps.values() if hasattr(ready.step.function, "_graphs")
    ]
    assert len(graphs) == 2


def test_what_a_graph_gave_stays_as_it_was() -> None:
    built, loss = MODELS["mlp"].built()
    program = CompiledProgram(built.main, BuildStrategy(cuda_graph=True))
    exe, scope = Executor(GPU), Scope()
    exe.run(built.startup, scope=scope)
    first, weight = exe.run(program, VECTORS(0, 8), [loss, "fc_0.w_0"], scope, return_numpy=False)
    before = first.item(), weight.clone()
    exe.run(program, VECTORS(1, 8), [loss, "fc_0.w_0"], scope, return_numpy=False)
    assert first.item() == before[0]
    assert torch.equal(weight, before[1])


@pytest.mark.timeout(300)
def test_torch_compile_equals_the_plain_program(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch._inductor.config

    monkeypatch.setattr(torch._inductor.config, "compile_threads", 1)  # it would keep processes for the next time
    rows = [16, 16, 16]
    plain = train(MODELS["mlp"], GPU, rows)
    close(train(MODELS["mlp"], GPU, rows, BuildStrategy(torch_compile=True)), plain, 1e-4)


def peak_bytes(is_optimized: bool) -> int:
    model = Model(
        partial(convolutions, 10, 16, 64), lambda: optimizer.Momentum(0.01, 0.9), partial(numbers, (1, 64, 64))
    )
    built, loss = model.built()
    if is_optimized:
        memory_optimize(built.main, skip_grads=False)
    exe, scope = Executor(GPU), Scope()
    exe.run(built.startup, scope=scope)
    feed = {name: torch.from_numpy(value).cuda() for name, value in model.batch(0, 32).items()}
    exe.run(built.main, feed, [loss], scope)
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    exe.run(built.main, feed, [loss], scope)
    return torch.cuda.max_memory_allocated() - before


def test_memory_optimize_lowers_the_peak() -> None:
    assert peak_bytes(True) < 0.7 * peak_bytes(False)


@pytest.mark.parametrize("name", ["mlp", "conv", "line"])
def test_a_step_waits_for_nothing(name: str) -> None:
    built, loss = MODELS[name].built()
    exe, scope = Executor(GPU), Scope()
    exe.run(built.startup, scope=scope)
    feed = {key: torch.from_numpy(value).cuda() for key, value in MODELS[name].batch(0, 8).items()}
    exe.run(built.main, feed, [loss], scope, return_numpy=False)
    torch.cuda.set_sync_debug_mode("error")
    try:
        (found,) = exe.run(built.main, feed, [loss], scope, return_numpy=False)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert found.device.type == "cuda"
    assert torch.isfinite(found).all()


def test_values_of_the_host_are_fed_and_those_of_the_gpu_fetched() -> None:
    with building() as built:
        x = fed("x", [-1, 3])
        out = layers.scale(x, 2.0)
    exe = Executor(GPU)
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    for given in (array, array.tolist(), torch.from_numpy(array), torch.from_numpy(array).cuda(), array[::-1][::-1]):
        (found,) = exe.run(built.main, {"x": given}, [out])
        assert isinstance(found, np.ndarray)
        assert (found == 2 * array).all()
