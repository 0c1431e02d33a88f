"""DataFeeder and the readers: samples become feeds, threads end with their readers, errors reach whoever reads."""

from __future__ import annotations

import threading
import traceback
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import fleet_programs
from fleet.errors import NotReadyError, NotSupportedError, UsageError, UsageTypeError
from fleet_programs.executor.executor import Executor
from fleet_programs.executor.lod import LoDTensor
from fleet_programs.executor.place import CPUPlace
from fleet_programs.expressions import names
from fleet_programs.feeding.feeding import DataFeeder
from fleet_programs.feeding.reader import DataLoader, EOFException, PyReader
from fleet_programs.layers.io import data
from fleet_programs.program.program import Program, program_guard
from fleet_programs.program.variable import Variable


@pytest.fixture
def program() -> Iterator[Program]:
    main = Program()
    with program_guard(main, Program()), names.guard():
        yield main


@pytest.fixture
def x(program: Program) -> Variable:
    return data("x", [2])


def test_samples_become_arrays(program: Program) -> None:
    variables = [data("x", [2]), data("image", [1, 2, 2]), data("label", [1], dtype="int64")]
    data("on", [1], dtype="bool")
    feed = DataFeeder([*variables, "on"], CPUPlace()).feed(
        [([1, 2], np.arange(4), 7, 1), (np.array([3.0, 4.0]), np.arange(4), np.int64(8), 0)]
    )
    assert {name: (array.shape, str(array.dtype)) for name, array in feed.items()} == {
        "x": ((2, 2), "float32"),
        "image": ((2, 1, 2, 2), "float32"),
        "label": ((2, 1), "int64"),
        "on": ((2, 1), "bool"),
    }
    assert feed["x"].tolist() == [[1, 2], [3, 4]]
    assert feed["label"].tolist() == [[7], [8]]


def test_texts_of_numbers_are_read(program: Program) -> None:
    feeder = DataFeeder([data("id", [1], dtype="int64"), data("words", [1], dtype="int64", lod_level=1)])
    feed = feeder.feed([("12", ["1", "2"]), ("7", ["3"])])
    assert (feed["id"].tolist(), str(feed["id"].dtype)) == ([[12], [7]], "int64")
    assert feed["words"].values.tolist() == [[1], [2], [3]]
    with pytest.raises(UsageError, match="'id' is int64, got texts that are no such numbers: .*'a few'"):
        feeder.feed([("a few", ["1"])])


def test_rows_of_open_size_are_as_wide_as_the_samples(program: Program) -> None:
    feeder = DataFeeder([data("rows", [-1, -1], append_batch_size=False, lod_level=1)])
    for one, two in (([[1, 2, 3]], [[4, 5, 6], [7, 8, 9]]), (np.ones((1, 3)), np.ones((2, 3)))):
        rows = feeder.feed([(one,), (two,)])["rows"]
        assert (rows.shape(), rows.lod()) == ([3, 3], [[0, 1, 3]])


def test_ragged_samples_become_lod_tensors(program: Program) -> None:
    feeder = DataFeeder([data("words", [1], dtype="int64", lod_level=1), data("rows", [2], lod_level=1)])
    lists: Any = [([1, 2, 3], [[1, 2]]), ([], []), ([4], [[3, 4], [5, 6]])]
    flat: Any = [([1, 2, 3], [1, 2]), ([], ()), ([4], [3, 4, 5, 6])]
    arrays = [(np.array(words, np.int64), np.array(rows, np.float64)) for words, rows in lists]
    for feed in map(feeder.feed, (lists, flat, arrays)):
        words, rows = feed["words"], feed["rows"]
        assert isinstance(words, LoDTensor)
        assert words.values.tolist() == [[1], [2], [3], [4]]
        assert words.lod() == [[0, 3, 3, 4]]
        assert rows.values.tolist() == [[1, 2], [3, 4], [5, 6]]
        assert rows.lod() == [[0, 1, 1, 3]]
    assert feeder.feed([([], [])])["words"].lod() == [[0, 0]]


@pytest.mark.parametrize(
    ("samples", "message"),
    [
        ([], "at least one sample"),
        ([([1, 2], 3), ([1, 2],)], "sample 1 has 1 values, but there are 2: x, label"),
        ([1, 2], r"sample 0 must be a tuple of values for x, label, got int: write \(value,\)"),
        ([([1, 2, 3], 1)], r"'x' takes samples of shape \[2\], got shape \[3\]"),
        ([([1, 2], 1), ([1], 1)], "'x': samples of one batch differ in shape"),
        ([([1, 2], 1.5)], "'label' is int64, got float64 samples"),
    ],
)
def test_samples_that_do_not_fit(program: Program, x: Variable, samples: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        DataFeeder([x, data("label", [1], dtype="int64")]).feed(samples)


def test_ragged_samples_that_do_not_fit(program: Program) -> None:
    feeder = DataFeeder([data("rows", [2], lod_level=1)])
    with pytest.raises(UsageError, match="'rows' is ragged: a sample has a list of values for it, got a number"):
        feeder.feed([(3,)])
    with pytest.raises(UsageError, match=r"a sample has a list of rows of shape \[2\] for it"):
        feeder.feed([([1, 2, 3],), ([4],)])


def test_arguments_of_a_feeder(program: Program, x: Variable) -> None:
    for bad in (x, "x", [], [3]):
        with pytest.raises(UsageTypeError, match="feed_list must"):
            DataFeeder(bad)  # type: ignore[arg-type]
    feeder = DataFeeder(["x"], program=program)
    batches = [[([1, 2],)], [([3, 4],)]]
    assert [feed["x"].tolist() for feed in feeder.decorate_reader(lambda: batches)()] == [[[1, 2]], [[3, 4]]]
    assert len(list(feeder.feed_parallel(batches))) == 2
    for refused in (lambda: list(feeder.feed_parallel(batches, 2)), lambda: feeder.decorate_reader(list, True)):
        with pytest.raises(NotSupportedError, match="fleetrun --worker_num"):
            refused()


def samples(count: int) -> Any:
    return lambda: (([i, i],) for i in range(count))


def test_three_kinds_of_generators(x: Variable) -> None:
    def first(loader: Any) -> list[list[float]]:
        return [feed["x"][:, 0].tolist() for feed in loader()]

    reader = PyReader([x], capacity=2)
    reader.decorate_sample_generator(samples(5), 2, places=[CPUPlace()])
    assert first(reader) == first(reader) == [[0, 1], [2, 3]]
    assert first(PyReader([x]).decorate_sample_generator(samples(5), 2, drop_last=False)) == [[0, 1], [2, 3], [4]]
    loader = DataLoader.from_generator([x], 4)
    assert first(loader.set_sample_list_generator(lambda: iter([[([1, 1],)], [([2, 2],), ([3, 3],)]]))) == [[1], [2, 3]]
    arrays = [np.full((2, 2), i, np.float32) for i in range(3)]
    loader.set_batch_generator(lambda: iter([[array] for array in arrays]))
    assert first(loader) == [[0, 0], [1, 1], [2, 2]]
    listed = DataLoader.from_generator([x], 4, return_list=True)
    listed.set_batch_generator(lambda: iter([[array] for array in arrays]))
    assert all((given == array).all() for (given,), array in zip(listed, arrays, strict=True))


def test_batches_go_to_another_device_ahead(program: Program, x: Variable) -> None:
    words = data("words", [1], dtype="int64", lod_level=1)
    batch = [([1, 2], [1, 2, 3])]
    (ahead,) = PyReader([x, words]).set_sample_list_generator(lambda: iter([batch]), places="meta")
    assert (ahead["x"].device.type, ahead["words"].values.device.type) == ("meta", "meta")
    assert ahead["words"].lod() == [[0, 3]]
    (later,) = PyReader([x, words], use_double_buffer=False).set_sample_list_generator(lambda: iter([batch]), "meta")
    assert isinstance(later["x"], np.ndarray)


def test_a_loop_that_is_left_leaves_no_thread(x: Variable) -> None:
    closed = threading.Event()

    def endless() -> Iterator[Any]:
        try:
            while True:
                yield [([1, 1],)]
        finally:
            closed.set()

    before = threading.active_count()
    reader = PyReader([x], capacity=1).set_sample_list_generator(endless)
    for _ in reader():
        assert threading.active_count() == before + 1
        break
    assert threading.active_count() == before
    assert closed.is_set(), "the generator cleared up behind itself"


def test_no_more_batches_are_made_ahead_than_there_is_room_for(x: Variable) -> None:
    made = threading.Semaphore(0)
    count = 0

    def counting() -> Iterator[Any]:
        nonlocal count
        for _ in range(9):
            count += 1
            made.release()
            yield [([1, 1],)]

    batches = iter(PyReader([x], capacity=2).set_sample_list_generator(counting))
    for _ in range(3):  # two lie ready, the third waits for room
        assert made.acquire(timeout=60)
    next(batches)
    assert made.acquire(timeout=60)
    batches.close()  # type: ignore[attr-defined]
    assert count == 4


def test_an_error_of_the_generator_reaches_the_loop_with_its_traceback(x: Variable) -> None:
    def breaks_here() -> Iterator[Any]:
        yield [([1, 1],)]
        raise KeyError("in the generator")

    seen = 0
    with pytest.raises(KeyError, match="in the generator") as caught:
        for _ in PyReader([x]).set_sample_list_generator(breaks_here):
            seen += 1
    assert seen == 1
    assert "breaks_here" in "".join(traceback.format_exception(caught.value))
    with pytest.raises(UsageError, match="'x' takes samples of shape"):
        list(PyReader([x]).set_sample_list_generator(lambda: iter([[([1],)]])))
    with pytest.raises(UsageError, match=r"a batch must be a list of 1 arrays \(x\), got 2 values"):
        list(PyReader([x]).set_batch_generator(lambda: iter([[1, 2]])))


def test_a_program_that_reads_by_itself(program: Program, x: Variable) -> None:
    reader = PyReader([x], capacity=2, iterable=False)
    reader.decorate_sample_list_generator(lambda: iter([[([i, i],)] for i in range(3)]))
    exe = Executor()
    for _ in range(2):
        seen = []
        reader.start()
        with pytest.raises(EOFException, match="the reader of x has no more batches; call reset"):
            while True:
                seen.append(exe.run(program, fetch_list=[x])[0][0, 0])
        reader.reset()
        assert seen == [0, 1, 2]
    reader.start()
    with pytest.raises(UsageError, match="started before"):
        reader.start()
    assert exe.run(program, {"x": np.full((1, 2), 9, np.float32)}, [x])[0][0, 0] == 9, "a feed that is given counts"
    out = fleet_programs.layers.scale(x)
    testing = program.clone(for_test=True)
    assert exe.run(testing, fetch_list=[out])[0][0, 0] == 0, "a clone reads from the same reader"
    assert exe.run(program, fetch_list=[out])[0][0, 0] == 1
    reader.reset()
    for one in (program, testing):
        with pytest.raises(NotReadyError, match=r"the reader of x was not started: call reader.start\(\) before"):
            exe.run(one, fetch_list=[out])
    with pytest.raises(UsageError, match="feed 'x' is missing"):
        exe.run(program.prune([out]), fetch_list=[out])
    other = PyReader([x], iterable=False)
    reader.start()
    assert exe.run(program, fetch_list=[x])[0][0, 0] == 0, "one reader of a variable is enough"
    reader.reset()
    assert not other.is_started
    with pytest.raises(UsageError, match=r"made with iterable=False: call start\(\)"):
        reader()


def test_arguments_of_readers(x: Variable) -> None:
    for make, error, message in (
        (lambda: PyReader(), UsageError, "feed_list must name the variables"),
        (lambda: PyReader([x], capacity=0), UsageError, "capacity must be >= 1, got 0"),
        (lambda: PyReader([x], iterable=False, return_list=True), UsageError, "return_list needs iterable=True"),
        (lambda: DataLoader.from_generator([x], use_multiprocess=True), NotSupportedError, "use_multiprocess"),
        (lambda: PyReader([x]).start(), UsageError, "needs iterable=False"),
        (lambda: PyReader([x]).reset(), UsageError, "needs iterable=False"),
        (lambda: iter(PyReader([x])), NotReadyError, "has no generator"),
        (lambda: PyReader([x]).set_sample_generator(samples(1), 0), UsageError, "batch_size must be >= 1"),
        (lambda: PyReader([x]).set_batch_generator([]), UsageTypeError, "must be a function"),  # type: ignore[arg-type]
        (lambda: PyReader([x]).set_batch_generator(list, ["meta"] * 2), NotSupportedError, "2 places"),
    ):
        with pytest.raises(error, match=message):
            make()


def test_public_names_are_sorted_and_all_resolve() -> None:
    assert fleet_programs.__all__ == sorted(fleet_programs.__all__)
    assert all(
        getattr(fleet_programs, name) is not None for name in fleet_programs.__all__ if name not in fleet_programs._LIVE
    )
    with pytest.raises(AttributeError, match="no attribute 'programm'"):
        _ = fleet_programs.programm


def test_a_clone_takes_all_that_its_reader_gives(program: Program, x: Variable) -> None:
    out, label = fleet_programs.layers.scale(x), data("label", [1])
    with program.adding("backward"):
        fleet_programs.layers.scale(label)
    reader = PyReader([x, label], iterable=False)
    reader.decorate_batch_generator(lambda: iter([[np.ones((1, 2), np.float32), np.ones((1, 1), np.float32)]]))
    reader.start()
    assert Executor().run(program.clone(for_test=True), fetch_list=[out])[0].shape == (1, 2)
    reader.reset()
