"""memory_optimize: values are let go where they were used last, and nothing else changes."""

from __future__ import annotations

import logging
import re
import weakref
from typing import Any

import numpy as np
import pytest
import torch

from fleet.errors import UsageError, UsageTypeError
from fleet_programs import layers, optimizer
from fleet_programs.definition.operator import Operator
from fleet_programs.definition.registry import Kernel
from fleet_programs.executor.executor import Executor
from fleet_programs.executor.memory import memory_optimize, release_memory
from fleet_programs.executor.options import BuildStrategy
from fleet_programs.executor.parallel import CompiledProgram
from fleet_programs.executor.scope import Scope
from fleet_programs.kernel.lowering import Lowering
from fleet_programs.layers.io import fed
from fleet_programs.program.program import Program
from fleet_programs.program.variable import Variable
from program_support.programs import Built, building

RNG = np.random.default_rng(3)
_kernel = Lowering.kernel
FEED = {"x": RNG.normal(size=(6, 1, 8, 8)).astype(np.float32), "y": RNG.integers(0, 3, (6, 1))}


def convolutions(depth: int = 6) -> tuple[Built, Variable]:
    with building() as built:
        built.main.random_seed = built.startup.random_seed = 9
        x = fed("x", [-1, 1, 8, 8])
        for _ in range(depth):
            x = layers.conv2d(x, 8, 3, padding=1, act="relu")
        x = layers.dropout(layers.batch_norm(x), 0.3)
        guess = layers.fc(x, 3, act="softmax")
        loss = layers.mean(layers.cross_entropy(guess, fed("y", [-1, 1], "int64")))
        optimizer.Momentum(0.05, 0.9).minimize(loss)
    return built, loss


class Peak:
    """Follows the bytes of all that kernels return; the most there were at once."""

    def __init__(self) -> None:
        self.now = self.most = 0
        self._alive: dict[int, Any] = {}

    def kernel(self, lowering: Lowering, op: Operator) -> Kernel:
        """In place of Lowering.kernel: the same kernel, watched."""
        kernel = _kernel(lowering, op)

        def watched(*tensors: torch.Tensor) -> Any:
            made = kernel(*tensors)
            for one in made if isinstance(made, tuple | list) else [made]:
                if isinstance(one, torch.Tensor):
                    self._follow(one.untyped_storage())
            return made

        return watched

    def _follow(self, storage: torch.UntypedStorage) -> None:
        key, size = storage._cdata, storage.nbytes()
        if key in self._alive:
            return
        self.now += size
        self.most = max(self.most, self.now)

        def gone(_: Any) -> None:
            self.now -= size
            self._alive.pop(key, None)

        self._alive[key] = weakref.ref(storage, gone)


def run(program: Any, startup: Program, fetches: list[Any], num_steps: int = 2) -> tuple[list[Any], Scope, str]:
    exe, scope = Executor(), Scope()
    exe.run(startup, scope=scope)
    values = [exe.run(program, FEED, fetches, scope) for _ in range(num_steps)]
    return values, scope, list(exe._steps.values())[-1].step.source


def test_results_are_the_same_bit_for_bit() -> None:
    built, loss = convolutions(2)
    fetches = [loss, "conv2d_0.w_0@GRAD"]
    values, scope, source = run(built.main, built.startup, fetches)
    assert "del " not in source
    for how in ("strategy", "release", "keep", "all"):
        program = built.main.clone()
        if how == "release":
            release_memory(program)
        elif how != "strategy":
            memory_optimize(program, skip_opt_set={"batch_norm_0.tmp_2"} if how == "keep" else None, skip_grads=False)
        compiled = CompiledProgram(program, BuildStrategy(memory_optimize=how == "strategy"))
        same, after, source = run(compiled, built.startup, fetches)
        assert "del " in source
        for one, other in zip(values, same, strict=True):
            assert all((a == b).all() for a, b in zip(one, other, strict=True))
        assert all((tensor == after.tensors[name]).all() for name, tensor in scope.tensors.items())


def freed(source: str) -> set[str]:
    return {name for line in re.findall(r"^ +del (.*)$", source, re.MULTILINE) for name in line.split(", ")}


def test_what_stays() -> None:
    built, loss = convolutions(2)
    relu = next(op.output("Out")[0] for op in built.main.global_block().ops if op.type == "relu")
    grads = {name.replace(".", "_").replace("@", "_") for name in built.main.global_block().vars if "w_0@GRAD" in name}
    memory_optimize(built.main)
    fetched = freed(Executor().source(built.main, FEED, [loss, relu]))
    kept = freed(Executor().source(built.main, FEED, [loss]))
    local = relu.replace(".", "_")
    assert (local in fetched, local in kept) == (False, True)
    assert not (grads | {loss.name.replace(".", "_"), "conv2d_0_w_0", "learning_rate_0"}) & kept
    memory_optimize(built.main, skip_opt_set=[relu], skip_grads=False)
    source = Executor().source(built.main, FEED, [loss])
    assert grads <= freed(source)
    assert local not in freed(source)
    assert built.main.notes["memory_optimize"] == {"skip_grads": False, "keep": [relu]}


def test_a_value_is_let_go_right_after_its_last_use() -> None:
    with building() as built:
        x = fed("x", [-1, 3])
        first = layers.scale(x, 2.0)
        second = layers.softmax(layers.elementwise_add(first, x))
    memory_optimize(built.main)
    lines = Executor().source(built.main, {"x": np.ones((1, 3), np.float32)}, [second]).splitlines()
    assert [line.split()[0] for line in lines[2:]] == [
        "scale_0_tmp_0",
        "elementwise_add_0_tmp_0",
        "del",
        "softmax_0_tmp_0",
        "del",
        "return",
    ]
    assert lines[4].endswith("del x, scale_0_tmp_0") or lines[4].endswith("del scale_0_tmp_0, x")


def test_fewer_bytes_are_alive_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    built, loss = convolutions(8)
    peaks = []
    for skip_grads in (None, True, False):
        if skip_grads is not None:
            memory_optimize(built.main, skip_grads=skip_grads)
        exe, scope = Executor(), Scope()
        exe.run(built.startup, scope=scope)
        peak = Peak()
        monkeypatch.setattr(Lowering, "kernel", lambda lowering, op, peak=peak: peak.kernel(lowering, op))
        exe.run(built.main, FEED, [loss], scope)
        peaks.append(peak.most)
    assert peaks[1] < 0.7 * peaks[0]
    assert peaks[2] <= peaks[1]


def test_a_clone_for_evaluation_frees_as_well() -> None:
    built, loss = convolutions(2)
    memory_optimize(built.main)
    assert freed(Executor().source(built.main.clone(for_test=True), FEED, [loss]))


def test_compiled_again_after_it() -> None:
    built, _ = convolutions(2)
    version = built.main.version
    memory_optimize(built.main)
    assert built.main.version > version


def test_the_log(caplog: pytest.LogCaptureFixture) -> None:
    built, loss = convolutions(2)
    with caplog.at_level(logging.INFO, logger="fleet"):
        memory_optimize(built.main, print_log=True, skip_opt_set=[loss])
    assert re.fullmatch(r"memory_optimize: \d+ values will be freed early, 1 kept", caplog.messages[0])


def test_mistakes() -> None:
    built, _ = convolutions(1)
    with pytest.raises(UsageTypeError, match="^input_program must be a Program, got str$"):
        memory_optimize("program")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="^level must be 0 or 1, got 2$"):
        memory_optimize(built.main, level=2)
    with pytest.raises(UsageError, match="^the program has no variable 'nobody'"):
        memory_optimize(built.main, skip_opt_set=["nobody"])
    assert "memory_optimize" not in built.main.notes
