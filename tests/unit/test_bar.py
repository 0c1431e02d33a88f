"""fleet.progress: what it prints is what it was given."""

from __future__ import annotations

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
