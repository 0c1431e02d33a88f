"""Idioms of scripts of version 1.x: readers that a program reads by itself, LoDTensors, feeds, and small attributes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch

import fleet_programs as static
from fleet.errors import CheckpointError, NotReadyError, NotSupportedError, UsageError, UsageTypeError
from fleet_programs import io, layers, optimizer
from fleet_programs.definition.operator import OPTIMIZE, SCHEDULE
from fleet_programs.executor.lod import LoDTensor, LoDTensorArray, create_random_int_lodtensor
from fleet_programs.executor.place import CPUPlace
from fleet_programs.executor.scope import Scope, scope_guard
from fleet_programs.feeding.reader import DataLoader, PyReader
from fleet_programs.layers.io import fed
from fleet_programs.optimizer.moving_average import ExponentialMovingAverage
from program_support.programs import building, trained


@pytest.fixture
def built() -> Iterator[Any]:
    with building() as one, scope_guard(one.scope):
        yield one


def test_a_loader_is_asked_for_one_batch_after_the_other(built: Any) -> None:
    x = fed("x", [-1, 1])
    loader = PyReader([x], 2).decorate_sample_list_generator(lambda: iter([[(i,)] for i in range(3)]))
    assert [next(loader)["x"].item() for _ in range(3)] == [0, 1, 2]
    for _ in range(2):
        with pytest.raises(StopIteration):
            for _ in range(4):
                loader.next()
    assert loader.iterable


def test_several_cpu_places_take_a_batch_each(built: Any) -> None:
    variables = [fed("x", [-1, 1]), fed("words", [-1, 1], "int64", 1)]
    batches: Any = [[(i, [i] * i)] for i in range(1, 6)]
    for drops, wanted in ((True, [[1, 2], [3, 4]]), (False, [[1, 2], [3, 4], [5]])):
        loader = DataLoader.from_generator(variables, 2, drop_last=drops)
        loader.set_sample_list_generator(lambda: iter(batches), [CPUPlace()] * 2)
        found = list(loader)
        assert [feed["x"][:, 0].tolist() for feed in found] == wanted
        assert [feed["words"].recursive_sequence_lengths() for feed in found] == [[one] for one in wanted]


def test_the_batches_of_a_dataset_as_a_loader() -> None:
    feeds: Any = [{"x": np.ones((size, 1))} for size in (2, 2, 1)]
    assert len(list(DataLoader.from_dataset(feeds)())) == 2
    assert len(list(DataLoader.from_dataset(feeds, CPUPlace(), drop_last=False))) == 3
    ragged: Any = [{"w": (np.ones((3, 1)), np.array([0, 1, 3]))}]
    (sent,) = DataLoader.from_dataset(ragged, "meta")
    assert (sent["w"][0].device.type, len(sent["w"][1])) == ("meta", 3)
    with pytest.raises(NotSupportedError, match="from_dataset: 2 places are not built"):
        DataLoader.from_dataset(feeds, [CPUPlace()] * 2)
    with pytest.raises(UsageTypeError, match="dataset must be an InMemoryDataset or a QueueDataset, got int"):
        DataLoader.from_dataset(3)  # type: ignore[arg-type]


def test_a_lod_tensor_is_filled_step_by_step() -> None:
    one = LoDTensor()
    assert (one._is_initialized(), one.shape(), one.lod()) == (False, [0], [])
    assert not one.has_valid_recursive_sequence_lengths()
    with pytest.raises(NotReadyError, match=r"no values yet; set\(\) them first"):
        np.array(one)
    one.set(np.arange(5.0).reshape(5, 1), CPUPlace())
    with pytest.raises(NotReadyError, match="no rows yet"):
        len(one)
    one.set_recursive_sequence_lengths([[2, 3]])
    assert (one.lod(), one.recursive_sequence_lengths(), len(one)) == ([[0, 2, 5]], [[2, 3]], 2)
    one.set_lod([[0, 4, 5]])
    assert (one.recursive_sequence_lengths(), one._get_dims(), one._get_float_element(3)) == ([[4, 1]], [5, 1], 3.0)
    assert one.has_valid_recursive_sequence_lengths()
    with pytest.raises(UsageError, match="offsets end at 4, but there are 5 values"):
        one.set_recursive_sequence_lengths([[4]])
    with pytest.raises(NotSupportedError, match="lod must have one or two levels, got 3"):
        one.set_lod([[0, 1], [0, 1], [0, 5]])
    with pytest.raises(UsageError, match="offsets end at 2, but there are 1 rows"):
        one.set_lod([[0, 2], [0, 5]])
    one.set_lod([[0, 1, 3], [0, 1, 4, 5]])
    assert (one.recursive_sequence_lengths(), len(one)) == ([[1, 2], [1, 3, 1]], 2)
    one.set(np.zeros((2, 1)))
    assert one.lod() == [], "other values have other rows"
    several = LoDTensorArray()
    several.append(np.ones(3))
    several.append(one)
    assert [part.shape() for part in several] == [[3], [2, 1]]
    random = create_random_int_lodtensor([[2, 1]], [4], CPUPlace(), 5, 6)
    assert (random.shape(), random.lod()) == ([3, 4], [[0, 2, 3]])
    assert set(np.unique(np.array(random))) <= {5, 6}


def test_arrays_of_tensors_copy_when_they_must() -> None:
    one = LoDTensor(np.zeros((2, 1), np.float32), [0, 2])
    assert np.array(one) is not np.asarray(one)
    shared = one.__array__(copy=False)
    shared[0] = 7
    assert one._get_float_element(0) == 7
    with pytest.raises(ValueError, match="without a copy"):
        one.__array__(np.float64, copy=False)
    assert LoDTensor(torch.ones(1, dtype=torch.bfloat16)).__array__().dtype == np.float32


def test_what_a_scope_holds_is_asked_as_scripts_do(built: Any) -> None:
    scope = Scope()
    tensor = scope.var("w").get_tensor()
    assert not tensor._is_initialized()
    tensor.set(np.arange(4, dtype=np.float32).reshape(2, 2), CPUPlace())
    assert (tensor._is_initialized(), tensor._get_dims(), tensor._get_float_element(3)) == (True, [2, 2], 3.0)
    tensor._set_float_element(0, 9.0)
    assert (np.array(tensor)[0, 0], tensor.lod(), tensor.recursive_sequence_lengths()) == (9, [], [])


def test_lod_tensors_for_variables_that_are_not_ragged_and_columns_for_rows(built: Any) -> None:
    x, words, ids = fed("x", [-1, 1]), fed("words", [-1], "int64", 1), fed("ids", [-1, 1], "int64", 1)
    column = LoDTensor(np.array([[1], [2], [3]]), [0, 1, 3])
    flat = LoDTensor(np.array([1, 2, 3]), [0, 1, 3])
    plain = LoDTensor(np.ones((2, 1), np.float32), [0, 1, 2])
    found = static.Executor().run(
        built.main, {"x": plain, "words": column, "ids": flat}, [x, words, ids], return_numpy=False
    )
    assert [one.lod() for one in found] == [[], [[0, 1, 3]], [[0, 1, 3]]]
    assert [tuple(one.shape) if isinstance(one, torch.Tensor) else one.shape() for one in found] == [
        (2, 1),
        [3],
        [3, 1],
    ]
    assert (np.array(found[0]) == 1).all()


def test_a_variable_with_an_initializer(built: Any) -> None:
    block = static.default_startup_program().global_block()
    block.create_var(
        "state", [2], "float32", persistable=True, type="tensor", initializer=static.initializer.Constant(4.0)
    )
    static.Executor().run(static.default_startup_program())
    assert np.array(built.scope.find_var("state").get_tensor()).tolist() == [4, 4]


def test_small_attributes_of_programs(built: Any) -> None:
    x = fed("x", [-1, 2])
    loss = layers.mean(layers.fc(x, 1))
    rate = layers.scale(layers.cast(layers.autoincreased_step_counter(begin=0), "float32"), bias=5.0)
    sgd = optimizer.SGD(0.5)
    assert sgd._global_learning_rate() is None
    sgd.minimize(loss)
    assert sgd._global_learning_rate().name == "learning_rate_0"  # type: ignore[union-attr]
    assert optimizer.SGD(rate)._global_learning_rate() is rate
    main = static.default_main_program()
    op = main.global_block().ops[1]
    assert (op.input_arg_names, op.output_arg_names) == (op.input_names, op.output_names)
    assert op.all_attrs() == op.attrs
    assert op.attr_names == list(op.attrs)
    assert not op.has_attr("no_such")
    for holder in (main.global_block(), op):
        assert not hasattr(holder, "desc")
        with pytest.raises(AttributeError, match=rf"^{type(holder).__name__}.desc is not built: print\("):
            _ = holder.desc
    for guard, role in ((main._lr_schedule_guard(), SCHEDULE), (main._optimized_guard([]), OPTIMIZE)):
        with guard:
            assert main.role == role
    exe = static.Executor()
    exe.run(static.default_startup_program())
    assert [exe.run(feed={"x": np.ones((1, 2), np.float32)}, fetch_list=[rate])[0].item() for _ in range(2)] == [5, 6]


def test_handlers_of_the_first_version_get_a_list() -> None:
    seen: list[Any] = []

    class Handler(static.FetchHandler):
        def handler(self, fetch_dict: Any) -> None:
            seen.append(fetch_dict)

    one, loss = trained()
    feed = {"x": np.ones((2, 3), np.float32)}
    for handler in (Handler([loss.name], 60, True), Handler(fetch_target_names=[loss.name])):
        static.Executor().train_from_dataset(one.main, [feed], one.scope, fetch_handler=handler)
    assert [type(values) for values in seen] == [list, list]
    assert len(seen[0]) == 1
    with pytest.raises(NotSupportedError, match="return_np must be True"):
        Handler([loss.name], 60, False)


def test_threads_beside_servers_are_those_that_read() -> None:
    class Dataset:
        thread_num = 0

        def set_thread(self, thread_num: int) -> None:
            self.thread_num = thread_num

        def __iter__(self) -> Iterator[Any]:
            return iter([{"x": np.ones((2, 3), np.float32)}] * 3)

    class Trainer:
        def with_server_lookups(self, ops: Any, block: Any) -> Any:  # noqa: ARG002
            return ops

        def stop(self) -> None:
            pass

    (one, _), dataset = trained(), Dataset()
    one.scope.trainer = Trainer()
    assert static.Executor().train_from_dataset(one.main, dataset, one.scope, thread=4) == 3
    assert dataset.thread_num == 4


def test_values_are_looked_at_before_they_are_set(tmp_path: Any, caplog: pytest.LogCaptureFixture) -> None:
    one, _ = trained()
    exe = static.Executor()
    with scope_guard(one.scope):
        io.save(one.main, tmp_path / "whole")
        io.save_persistables(exe, tmp_path / "folder", one.main)
        io.save_persistables(exe, tmp_path / "one", one.main, filename="file")
        found = [io.load_program_state(tmp_path / place) for place in ("whole", "folder", "one/file")]
        assert [sorted(state) for state in found] == [["fc_0.b_0", "fc_0.w_0", "learning_rate_0"]] * 3
        state = io.load_program_state(tmp_path / "whole", ["fc_0.w_0"])
        io.set_program_state(one.main, {"fc_0.w_0": state["fc_0.w_0"] * 0 + 3, "other": np.zeros(1)})
        assert (one["fc_0.w_0"] == 3).all()
        assert "has no variables other" in caplog.text
        for wrong in ({"fc_0.w_0": np.zeros(2, np.float32)}, {"fc_0.w_0": state["fc_0.w_0"].astype(np.float64)}):
            with pytest.raises(UsageError, match=r"^variable 'fc_0.w_0' .*, got "):
                io.set_program_state(one.main, wrong)
    with pytest.raises(CheckpointError, match="'none' is not in"):
        io.load_program_state(tmp_path / "whole", ["none"])
    with pytest.raises(CheckpointError, match="holds no variables"):
        io.load_program_state(tmp_path / "nothing")


@pytest.mark.parametrize("has_steps", [False, True])
def test_averages_of_parameters(built: Any, has_steps: bool) -> None:
    x = fed("x", [-1, 2])
    optimizer.SGD(1.0).minimize(layers.mean(layers.fc(x, 1, bias_attr=False)))
    steps = layers.cast(layers.autoincreased_step_counter(begin=0), "float32") if has_steps else None
    ema = ExponentialMovingAverage(0.5, steps)
    ema.update()
    exe, feed = static.Executor(), {"x": np.ones((1, 2), np.float32)}
    with pytest.raises(NotReadyError, match="there are no averages"), ema.apply(exe):
        pass
    exe.run(static.default_startup_program())
    average, left = 0.0, 1.0
    for step in range(3):
        exe.run(feed=feed)
        decay = min(0.5, (1 + step) / (10 + step)) if has_steps else 0.5
        average, left = average * decay + built["fc_0.w_0"] * (1 - decay), left * decay
    last = built["fc_0.w_0"].copy()
    with ema.apply(exe):
        np.testing.assert_allclose(built["fc_0.w_0"], average / (1 - left), rtol=1e-5)
    assert (built["fc_0.w_0"] == last).all()
    with pytest.raises(UsageError, match="call it once"):
        ema.update()
    with pytest.raises(UsageError, match="decay must be below 1"):
        ExponentialMovingAverage(1.0)
