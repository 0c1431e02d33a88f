"""fleet.progress: what it prints is what it was given."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from fleet.observe.bar import progress


def test_a_bar_shows_text_that_looks_like_markup(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FLEET_TERMINAL_WIDTH", "120")
    for _ in (bar := progress([1], "[bold] epoch")):
        bar.show(path="[/tmp]", split="[red]")
    shown = capsys.readouterr().out
    assert "[bold] epoch" in shown
    assert "path [/tmp]  split [red]" in shown


def test_plain_lines_do_not_say_the_end_twice(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("fleet.observe.bar._LINE_EVERY_S", -1.0)
    list(progress([1, 2], "epoch"))
    assert capsys.readouterr().out.count("epoch 2/2") == 1


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
    assert "epoch 3  " in capsys.readouterr().out
