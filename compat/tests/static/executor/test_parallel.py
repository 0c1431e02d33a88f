"""Options of compiled programs and ParallelExecutor: what is taken, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fleet.errors import NotSupportedError, UnknownFieldError, UsageError, UsageTypeError
from fleet_programs.executor.executor import Executor
from fleet_programs.executor.options import BuildStrategy, ExecutionStrategy
from fleet_programs.executor.parallel import CompiledProgram, ParallelExecutor
from fleet_programs.executor.place import CPUPlace, CUDAPlace
from fleet_programs.executor.places import cpu_places
from fleet_programs.executor.scope import scope_guard
from fleet_programs.program.notes import COLLECTIVE_NOTE
from program_support.programs import trained

FEED = {"x": np.ones((2, 3), np.float32)}


def test_unknown_fields() -> None:
    build = BuildStrategy()
    with pytest.raises(UnknownFieldError, match="^BuildStrategy has no field 'cuda_graphs'; did you mean 'cuda_graph'"):
        build.cuda_graphs = True  # type: ignore[attr-defined]
    with pytest.raises(UnknownFieldError, match="^ExecutionStrategy has no field 'threads'"):
        ExecutionStrategy(threads=3)
    with pytest.raises(UsageError, match="^BuildStrategy.torch_compile must be True or False, got 1; it hands"):
        build.torch_compile = 1  # type: ignore[assignment]


def test_fields_show_themselves() -> None:
    build = BuildStrategy(memory_optimize=True)
    build.reduce_strategy = BuildStrategy.ReduceStrategy.Reduce
    assert repr(build) == "BuildStrategy(memory_optimize=True, reduce_strategy=1)"
    assert build.reduce_strategy == BuildStrategy.ReduceStrategy.Reduce
    assert repr(ExecutionStrategy()) == "ExecutionStrategy()"
    assert build.cuda_graph is False


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("gradient_scale_strategy", BuildStrategy.GradientScaleStrategy.Customized),
        ("sync_batch_norm", True),
        ("debug_graphviz_path", "graph.dot"),
        ("use_hierarchical_allreduce", True),
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


def test_the_gradient_of_one_trainer_is_a_sum_and_a_mean() -> None:
    built, _ = trained()
    build = BuildStrategy(gradient_scale_strategy=BuildStrategy.GradientScaleStrategy.One)
    assert CompiledProgram(built.main, build).build_strategy is build
    built.main.notes[COLLECTIVE_NOTE] = {"endpoints": ["127.0.0.1:1", "127.0.0.1:2"], "trainer_id": 0}
    with pytest.raises(NotSupportedError, match="^BuildStrategy.gradient_scale_strategy must be CoeffNumDevice"):
        CompiledProgram(built.main, build)


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
        CompiledProgram(built.main).with_data_parallel(places=[CUDAPlace(0), CUDAPlace(1)])


def test_a_compiled_program_runs_as_the_program() -> None:
    built, loss = trained()
    before = built["fc_0.w_0"]
    compiled = CompiledProgram(built.main).with_data_parallel(loss.name, places=[CPUPlace()])
    (found,) = Executor().run(compiled, FEED, [loss], scope=built.scope)
    np.testing.assert_allclose(found, before.sum(), rtol=1e-6)
    np.testing.assert_allclose(built["fc_0.w_0"], before - 1, rtol=1e-6)


def test_a_strategy_may_be_changed_between_runs() -> None:
    (built, loss), exe, build = trained(), Executor(), BuildStrategy()
    compiled = CompiledProgram(built.main, build)
    with scope_guard(built.scope):
        assert "    del " not in exe.source(compiled, FEED, [loss])
        build.memory_optimize = True
        assert "    del " in exe.source(compiled, FEED, [loss])
        build.sync_batch_norm = True
        with pytest.raises(NotSupportedError, match="^BuildStrategy.sync_batch_norm"):
            exe.run(compiled, FEED, [loss])


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


def test_feeds_for_several_places_are_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CPU_NUM", "2")
    built, loss = trained()
    exe = ParallelExecutor(False, main_program=built.main.clone(for_test=True), scope=built.scope)
    twice = {"x": np.concatenate([FEED["x"], 3 * FEED["x"]])}
    (wanted,) = exe.run([loss], twice)
    several = [FEED, {"x": 3 * FEED["x"]}]
    assert exe.run([loss], several)[0] == wanted
    compiled = CompiledProgram(built.main.clone(for_test=True)).with_data_parallel(places=cpu_places())
    assert Executor().run(compiled, several, [loss], scope=built.scope)[0] == wanted
    with pytest.raises(UsageError, match="^feeds for several places must have the same names"):
        exe.run([loss], [FEED, {}])
    with pytest.raises(UsageTypeError, match="^feed must be a dictionary of names and values, or a list with one for"):
        exe.run([loss], [FEED, 3])  # type: ignore[list-item]


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
