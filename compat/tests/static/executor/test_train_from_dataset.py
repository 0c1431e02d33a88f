"""A program over the batches of a dataset: each once, in one thread or several; what is printed, watched and raised."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pytest

from fleet.errors import NotReadyError, NotSupportedError, UsageError, UsageTypeError
from fleet_programs import layers, optimizer
from fleet_programs.executor.dataset import FetchHandler
from fleet_programs.executor.executor import Executor
from fleet_programs.layers.io import fed
from fleet_programs.program.variable import Variable
from program_support.programs import Built, building

WAIT_S = 10.0
"""For what another thread of the test must do."""


def adding() -> tuple[Built, Variable, Variable]:
    """A program that adds what it is fed to a variable that lasts, which a thread does at once."""
    with building() as built:
        x = fed("x", [1])
        total = layers.create_global_var([1], 0.0, "float32", persistable=True, name="total")
        layers.increment(total, 1.0)
        out = layers.scale(x, 10.0)
    built.start()
    return built, out, total


def batches(count: int) -> list[dict[str, Any]]:
    return [{"x": np.array([i], np.float32)} for i in range(count)]


class Recording(Executor):
    """Notes which batches were run."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[int] = []

    def run(self, program: Any = None, feed: Any = None, *args: Any, **more: Any) -> list[Any]:
        self.seen.append(int(feed["x"][0]))
        return super().run(program, feed, *args, **more)


@pytest.mark.parametrize("thread", [0, 1, 3])
def test_every_batch_is_used_once(thread: int) -> None:
    built, _, _ = adding()
    exe = Recording()
    assert exe.train_from_dataset(built.main, batches(40), built.scope, thread=thread) == 40
    assert sorted(exe.seen) == list(range(40))
    if thread <= 1:
        assert built["total"] == 40
        assert exe.seen == list(range(40))


def test_several_threads_work_at_once() -> None:
    """Three batches meet at a barrier, which one thread alone would never pass."""
    built, _, _ = adding()
    meeting = threading.Barrier(3)

    class Meeting(Executor):
        def run(self, *args: Any, **more: Any) -> list[Any]:
            meeting.wait(WAIT_S)
            return super().run(*args, **more)

    assert Meeting().train_from_dataset(built.main, batches(9), built.scope, thread=3) == 9


def test_lines_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    built, out, _ = adding()
    exe = Executor()
    exe.train_from_dataset(
        built.main, batches(5), built.scope, fetch_list=[out, "total"], fetch_info=["ten", "sum"], print_period=2
    )
    assert capsys.readouterr().out == "batch 2: ten 10.0000, sum 2.0000\nbatch 4: ten 30.0000, sum 4.0000\n"
    exe.train_from_dataset(built.main, batches(1), built.scope, fetch_list=[out], print_period=1)
    assert capsys.readouterr().out == f"batch 1: {out.name} 0.0000\n"
    exe.train_from_dataset(built.main, batches(3), built.scope, debug=True)
    assert capsys.readouterr().out.startswith("3 batches in ")


def test_a_handler_gets_the_newest_values() -> None:
    built, out, _ = adding()
    called = threading.Event()
    seen: list[Mapping[str, Any]] = []

    class Handler(FetchHandler):
        def handler(self, fetch_dict: Mapping[str, Any]) -> None:
            seen.append(fetch_dict)
            called.set()

    def until_called() -> Iterator[dict[str, Any]]:
        yield {"x": np.array([7], np.float32)}
        assert called.wait(WAIT_S)

    Executor().train_from_dataset(
        built.main, until_called(), built.scope, fetch_handler=Handler({"ten": out}, period_secs=0.001)
    )
    assert {name: value.tolist() for name, value in seen[0].items()} == {"ten": [70.0]}


def test_a_handler_gets_the_last_values_however_short_training_was() -> None:
    built, out, _ = adding()
    seen: list[Any] = []

    class Handler(FetchHandler):
        def handler(self, fetch_dict: Mapping[str, Any]) -> None:
            seen.append(fetch_dict["ten"].tolist())

    Executor().train_from_dataset(built.main, batches(3), built.scope, fetch_handler=Handler({"ten": out}, 1000))
    assert seen == [[20.0]]


def test_a_handler_does_not_begin_where_there_are_no_batches() -> None:
    built, out, _ = adding()

    class Unready:
        def __iter__(self) -> Iterator[Any]:
            raise NotReadyError("no records")

    before, handler = threading.active_count(), FetchHandler({"ten": out})
    with pytest.raises(NotReadyError, match="^no records$"):
        Executor().train_from_dataset(built.main, Unready(), built.scope, fetch_handler=handler)
    with pytest.raises(UsageTypeError, match="^dataset must be an InMemoryDataset, .* got 5$"):
        Executor().train_from_dataset(built.main, 5, built.scope, fetch_handler=handler)
    assert threading.active_count() == before


def test_an_error_of_a_handler_is_raised() -> None:
    built, out, _ = adding()

    class Handler(FetchHandler):
        def handler(self, fetch_dict: Mapping[str, Any]) -> None:
            raise OSError(f"no place for {len(fetch_dict)} value")

    with pytest.raises(OSError, match="^no place for 1 value$"):
        Executor().train_from_dataset(built.main, batches(3), built.scope, fetch_handler=Handler({"ten": out}, 1000))


def test_a_handler_prints_if_it_is_not_told_otherwise(capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = adding()
    FetchHandler({"ten": out}).handler({"ten": 3, "two": 2})
    assert capsys.readouterr().out == "ten: 3, two: 2\n"


@pytest.mark.parametrize("thread", [1, 3])
def test_an_error_ends_all_threads_and_closes_the_source(thread: int) -> None:
    built, _, _ = adding()
    closed, given = [], []

    def source() -> Iterator[dict[str, Any]]:
        try:
            for i in range(10_000):
                given.append(i)
                yield {"x": np.array([i] if i != 5 else [1, 2], np.float32)}
        finally:
            closed.append(True)

    with pytest.raises(UsageError, match=r"^feed 'x' must have shape \[1\], got \[2\]; reshape it$"):
        Executor().train_from_dataset(built.main, source(), built.scope, thread=thread)
    assert closed == [True]
    assert len(given) < 10_000


@pytest.mark.parametrize("thread", [1, 3])
def test_an_error_of_the_source_is_raised(thread: int) -> None:
    built, _, _ = adding()

    def source() -> Iterator[dict[str, Any]]:
        yield {"x": np.array([1], np.float32)}
        raise OSError("the file is gone")

    with pytest.raises(OSError, match="^the file is gone$"):
        Executor().train_from_dataset(built.main, source(), built.scope, thread=thread)


def test_a_generator_is_closed_when_it_is_over() -> None:
    built, _, _ = adding()
    events: list[str] = []

    def source() -> Iterator[dict[str, Any]]:
        try:
            yield from batches(3)
        finally:
            events.append("closed")

    assert Executor().train_from_dataset(built.main, source(), built.scope) == 3
    assert events == ["closed"]


def test_evaluation_over_a_dataset(capsys: pytest.CaptureFixture[str]) -> None:
    with building() as built:
        loss = layers.mean(layers.fc(fed("x", [-1, 2]), 1))
        optimizer.SGD(1.0).minimize(loss)
    built.start(fc_0__w_0=np.ones((2, 1), np.float32))
    exe, data = Executor(), [{"x": np.ones((1, 2), np.float32)}] * 2
    for program in (built.main.clone(for_test=True), built.main, built.main):
        assert exe.infer_from_dataset(program, data, built.scope, fetch_list=[loss], print_period=1) == 2
        assert capsys.readouterr().out == f"batch 1: {loss.name} 2.0000\nbatch 2: {loss.name} 2.0000\n"
        assert (built["fc_0.w_0"] == 1).all()
    assert len(exe._steps) == 2, "the program without its training is made once"


def test_mistakes() -> None:
    built, out, _ = adding()
    exe = Executor()
    with pytest.raises(UsageError, match="^train_from_dataset: give dataset=, an InMemoryDataset or"):
        exe.train_from_dataset(built.main)
    with pytest.raises(UsageError, match="^print_period must be >= 1, got 0$"):
        exe.train_from_dataset(built.main, [], print_period=0)
    with pytest.raises(UsageError, match="^fetch_info must have one text for each of fetch_list, got 2 for 1$"):
        exe.train_from_dataset(built.main, [], fetch_list=[out], fetch_info=["a", "b"])
    with pytest.raises(UsageTypeError, match="^fetch_list must hold variables or their names, got int$"):
        exe.train_from_dataset(built.main, [], fetch_list=[3])  # type: ignore[list-item]
    with pytest.raises(UsageTypeError, match="^FetchHandler: var_dict must map names to variables of the program$"):
        FetchHandler({"a": "b"})  # type: ignore[dict-item]
    with pytest.raises(UsageError, match="^FetchHandler: period_secs must be > 0, got 0$"):
        FetchHandler({"a": out}, 0)
    built.main.notes["servers"] = {}
    with pytest.raises(NotSupportedError, match="^train_from_dataset: thread=2 beside servers is the number of threa"):
        exe.train_from_dataset(built.main, [], thread=2)
