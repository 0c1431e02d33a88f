"""fleet.progress: what it prints is what it was given."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import pytest

import fleet
from fleet.errors import UsageError
from fleet.observe.bar import Tally, progress


def test_a_bar_shows_text_that_looks_like_markup(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FLEET_TERMINAL_WIDTH", "120")
    for _ in (bar := progress([1], "[bold] epoch")):
        bar.show(path="[/tmp]", split="[red]")
    shown = capsys.readouterr().out
    assert "[bold] epoch" in shown
    assert "path [/tmp]  split [red]" in shown


def test_a_bar_inside_another_does_not_write_over_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FLEET_TERMINAL_WIDTH", "120")
    monkeypatch.setattr("fleet.observe.bar._Bar._outer", None)
    for _ in progress(range(2), "epochs"):
        list(progress(range(3), "[a] batches"))
    shown = re.sub(r"\x1b\[[\d;]*m", "", capsys.readouterr().out)
    assert shown.count("\x1b[?25l") == 1, "one of them draws, and hides the cursor"
    assert len(re.findall(r"\[a\] batches  step 3/3 .* in \d+\.\d s\n", shown)) == 2
    assert re.search(r"epochs \S+ step 2/2 .* in \d+\.\d s", shown)
    list(progress([1], "after"))
    assert re.search(r"after \S+ step 1/1 ", re.sub(r"\x1b\[[\d;]*m", "", capsys.readouterr().out))


def test_plain_lines_do_not_say_the_end_twice(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("fleet.observe.bar._LINE_EVERY_S", -1.0)
    list(progress([1, 2], "epoch"))
    assert capsys.readouterr().out.count("epoch  step 2/2") == 1


def test_a_finished_bar_has_another_colour_than_an_empty_one(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FLEET_TERMINAL_WIDTH", "120")
    monkeypatch.setenv("TERM", "xterm")  # 16 colours
    monkeypatch.delenv("COLORTERM", raising=False)
    monkeypatch.delenv("NO_COLOR", raising=False)
    list(progress([1], "epoch"))
    finished = capsys.readouterr().out.rpartition("epoch ")[2]
    assert finished.startswith("\x1b[32m")


def test_a_stream_without_a_length_has_a_bar_too(capsys: pytest.CaptureFixture[str]) -> None:
    class Stream:
        def __len__(self) -> int:
            raise TypeError("no length")

        def __iter__(self) -> Iterator[int]:
            return iter(range(3))

    assert list(progress(Stream(), "epoch")) == [0, 1, 2]
    assert "epoch  step 3  " in capsys.readouterr().out


class Clock:
    """Stands still until it is told to go on."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_a_tally_says_what_its_numbers_are() -> None:
    clock = Clock()
    tally = Tally("step", 0, 300, clock)
    tally.values = {"loss": 0.41, "rate": 2.5e-5}
    assert str(tally) == "step 0/300  loss 0.4100  rate 2.5e-05"
    clock.now += 10
    tally.done = 123
    assert str(tally) == "step 123/300  loss 0.4100  rate 2.5e-05  12.3 steps/s  14 s left"
    tally.done, tally.is_over = 300, True
    assert str(tally).endswith("  30.0 steps/s  in 10 s")


def test_rate_and_time_left_are_those_of_this_run() -> None:
    clock = Clock()
    tally = Tally("batch", 120, 300, clock)
    clock.now += 100
    tally.done += 20
    assert str(tally) == "batch 140/300  5.0 s/batch  13 min 20 s left"
    clock.now -= 99.9
    assert "  200 batches/s  " in str(tally)


@pytest.mark.parametrize(
    ("bar", "first", "last"),
    [
        (lambda: progress(range(120, 300), initial=120), "step 121/300  ", "step 300/300  "),
        (lambda: progress(iter(range(3)), initial=7, total=10), "step 8/10  ", "step 10/10  "),
        (lambda: progress(iter(range(3)), "epoch 1", initial=7), "epoch 1  step 8  ", "epoch 1  step 10  "),
    ],
)
def test_a_resumed_run_goes_on_where_it_was(
    bar: Callable[[], progress[int]],
    first: str,
    last: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("fleet.observe.bar._LINE_EVERY_S", -1.0)
    list(bar())
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith(first)
    assert lines[-1].startswith(last)


def test_a_bar_of_a_resumed_run_begins_where_it_was(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FLEET_TERMINAL_WIDTH", "120")
    loop = iter(progress(range(120, 300), "epoch", initial=120))
    next(loop)
    assert "step 120/300" in capsys.readouterr().out
    loop.close()  # type: ignore[attr-defined]  # it is a generator
    assert re.search(r"  in \d+\.\d s", capsys.readouterr().out)


def test_data_that_was_resumed_says_where_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    fleet.init()
    try:
        data, resumed = (fleet.data.shard(list(range(100)), batch_size=10) for _ in range(2))
        for _ in zip(range(4), data, strict=False):
            pass
        resumed.load_state_dict(data.state_dict())
        assert resumed.num_done == 4
        list(progress(resumed, "epoch"))
        assert capsys.readouterr().out.startswith("epoch  step 10/10  ")
        assert resumed.num_done == 0
    finally:
        fleet.shutdown()


def test_an_impossible_beginning_is_refused() -> None:
    with pytest.raises(UsageError, match="initial must be from 0 to the total, 10, got 12"):
        progress(range(3), initial=12, total=10)
