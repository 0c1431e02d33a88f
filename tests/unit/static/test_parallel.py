"""Options of compiled programs and ParallelExecutor: what is taken, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fleet.errors import NotSupportedError, UnknownFieldError, UsageError, UsageTypeError
from fleet.static import layers, optimizer
from fleet.static.executor.executor import Executor
from fleet.static.executor.options import BuildStrategy, ExecutionStrategy
from fleet.static.executor.parallel import CompiledProgram, ParallelExecutor
from fleet.static.executor.place import CPUPlace
from fleet.static.layers.io import fed
from fleet.static.variable import Variable
from support.programs import Built, building

FEED = {"x": np.ones((2, 3), np.float32)}


def trained() -> tuple[Built, Variable]:
    with building() as built:
        loss = layers.mean(layers.fc(fed("x", [-1, 3]), 1))
        optimizer.SGD(1.0).minimize(loss)
    built.start()
    return built, loss


def test_unknown_fields() -> None:
    build = BuildStrategy()
    with pytest.raises(UnknownFieldError, match="^BuildStrategy has no field 'cuda_graphs'; did you mean 'cuda_graph'"):
        build.cuda_graphs = True
    with pytest.raises(UnknownFieldError, match="^ExecutionStrategy has no field 'threads'"):
        ExecutionStrategy(threads=3)
    with pytest.raises(UsageError, match="^BuildStrategy.torch_compile must be True or False, got 1$"):
        build.torch_compile = 1  # type: ignore[assignment]


def test_fields_show_themselves() -> None:
    build = BuildStrategy(memory_optimize=True)
    build.reduce_strategy = BuildStrategy.ReduceStrategy.Reduce
    assert repr(build) == "BuildStrategy(memory_optimize=True, reduce_strategy=<ReduceStrategy.Reduce: 1>)"
    assert repr(ExecutionStrategy()) == "ExecutionStrategy()"
    assert build.cuda_graph is False


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("gradient_scale_strategy", BuildStrategy.GradientScaleStrategy.One),
        ("sync_batch_norm", True),
        ("debug_graphviz_path", "graph.dot"),
    ],
)
def test_what_would_change_a_result_is_refused(name: str, value: Any) -> None:
    built, loss = trained()
    build = BuildStrategy(**{name: value})
    for use in (
        lambda: CompiledProgram(built.main, build),
        lambda: CompiledProgram(built.main).with_data_parallel(loss.name, build),
        lambda: ParallelExecutor(False, main_program=built.main, build_strategy=build),
    ):
        with pytest.raises(NotSupportedError, match=f"^BuildStrategy.{name}"):
            use()


def test_one_iteration_for_each_run() -> None:
    built, _ = trained()
    execution = ExecutionStrategy(num_iteration_per_run=2, num_threads=4)
    with pytest.raises(
        NotSupportedError, match="^ExecutionStrategy.num_iteration_per_run must be 1; run the program in"
    ):
        CompiledProgram(built.main).with_data_parallel(exec_strategy=execution)


def test_a_compiled_program_needs_a_program_and_a_known_loss() -> None:
    built, _ = trained()
    with pytest.raises(UsageTypeError, match="^program must be a Program, got str$"):
        CompiledProgram("program")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="^the program has no variable 'mean_9'"):
        CompiledProgram(built.main).with_data_parallel("mean_9")
    with pytest.raises(NotSupportedError, match="2 places in one process are not built; .*fleetrun --worker_num 2"):
        CompiledProgram(built.main).with_data_parallel(places=[CPUPlace(), CPUPlace()])


def test_a_compiled_program_runs_as_the_program() -> None:
    built, loss = trained()
    before = built["fc_0.w_0"]
    compiled = CompiledProgram(built.main).with_data_parallel(loss.name, places=[CPUPlace()])
    (found,) = Executor().run(compiled, FEED, [loss], scope=built.scope)
    np.testing.assert_allclose(found, before.sum(), rtol=1e-6)
    np.testing.assert_allclose(built["fc_0.w_0"], before - 1, rtol=1e-6)


@pytest.mark.parametrize("feed", [FEED, [FEED], (FEED,)], ids=["dict", "list", "tuple"])
@pytest.mark.parametrize("argument", ["feed", "feed_dict"])
def test_parallel_executor_feeds(feed: Any, argument: str) -> None:
    built, loss = trained()
    exe = ParallelExecutor(False, loss.name, built.main, scope=built.scope)
    before = built["fc_0.w_0"]
    (found,) = exe.run([loss], **{argument: feed})
    np.testing.assert_allclose(found, before.sum(), rtol=1e-6)
    exe.drop_local_exe_scopes()
    assert exe.device_count == 1


def test_parallel_executor_takes_one_feed() -> None:
    built, loss = trained()
    exe = ParallelExecutor(False, main_program=built.main, scope=built.scope)
    with pytest.raises(UsageError, match="^feed must have one dictionary for each device .*, which is 1, got 2$"):
        exe.run([loss], [FEED, FEED])


def test_parallel_executors_share_variables() -> None:
    built, loss = trained()
    first = ParallelExecutor(False, main_program=built.main, scope=built.scope)
    second = ParallelExecutor(False, main_program=built.main.clone(for_test=True), share_vars_from=first)
    (before,) = second.run([loss], FEED)
    first.run([loss], FEED)
    (after,) = second.run([loss.name], FEED, return_numpy=False)
    assert after.item() < before.item()
    with pytest.raises(UsageTypeError, match="^share_vars_from must be a ParallelExecutor, got Executor$"):
        ParallelExecutor(False, main_program=built.main, share_vars_from=Executor())  # type: ignore[arg-type]


def test_trainers_must_be_those_of_the_program() -> None:
    built, _ = trained()
    with pytest.raises(UsageError, match="^num_trainers is 2, but the program is one of 1 trainers; transpile it with"):
        ParallelExecutor(False, main_program=built.main, num_trainers=2)
    built.main.notes["collective"] = {"endpoints": ["a:1", "b:1", "c:1"], "trainer_id": 1}
    with pytest.raises(
        UsageError, match="^num_trainers is 2, but the program is one of 3 trainers; give the same number"
    ):
        ParallelExecutor(False, main_program=built.main, num_trainers=2)
    with pytest.raises(UsageError, match="^trainer_id is 0, but the program was transpiled for trainer 1$"):
        ParallelExecutor(False, main_program=built.main, num_trainers=3)
    ParallelExecutor(False, main_program=built.main, num_trainers=3, trainer_id=1)


def test_graphs_need_a_gpu() -> None:
    built, loss = trained()
    compiled = CompiledProgram(built.main, BuildStrategy(cuda_graph=True))
    with pytest.raises(UsageError, match="^BuildStrategy.cuda_graph needs a program on a GPU; run it with CUDAPlace"):
        Executor().run(compiled, FEED, [loss], scope=built.scope)
