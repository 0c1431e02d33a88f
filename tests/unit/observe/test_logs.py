"""Fleet's own log lines: each has a time and a level, a server says what it does, a program's own logging is kept."""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import Callable, Iterator

import pytest

from fleet.observe.logs import show_logs
from fleet.ps.held.log_lines import job_line
from fleet.ps.job.dense_spec import DenseBlock, DenseSpec
from fleet.ps.job.named_spec import EntrySpec, InitializerSpec, RuleSpec
from fleet.ps.job.spec import JobSpec, TableSpec

STAMP = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d"


@pytest.fixture
def nothing_set_up(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], logging.Logger]]:
    """Makes this process one whose program has set up no logging, and returns Fleet's logger; to be called in a test.

    pytest gives the root its handlers after fixtures were made.
    """
    log = logging.getLogger("fleet")

    def clear() -> logging.Logger:
        monkeypatch.setattr(logging.getLogger(), "handlers", [])
        monkeypatch.setattr(log, "handlers", [])
        return log

    yield clear
    log.setLevel(logging.NOTSET)


def test_a_line_has_its_time_and_level(
    nothing_set_up: Callable[[], logging.Logger], capsys: pytest.CaptureFixture[str]
) -> None:
    log = nothing_set_up().getChild("ps.worker")
    show_logs()
    show_logs()
    log.warning("step %d", 3)
    log.info("not shown")
    said = capsys.readouterr()
    assert re.fullmatch(rf"{STAMP} WARNING fleet\.ps\.worker: step 3\n", said.err)
    assert said.out == ""
    show_logs(logging.INFO)  # this process is a server
    log.info("shown")
    assert re.fullmatch(rf"{STAMP} INFO fleet\.ps\.worker: shown\n", capsys.readouterr().err)


def test_the_programs_own_logging_is_kept(
    nothing_set_up: Callable[[], logging.Logger], capsys: pytest.CaptureFixture[str]
) -> None:
    fleets = nothing_set_up()
    fleets.setLevel(logging.ERROR)
    show_logs(logging.INFO)
    fleets.warning("too little for the program")
    assert capsys.readouterr().err == ""
    logging.basicConfig(format="own: %(message)s")
    fleets.error("once")
    assert capsys.readouterr().err == "own: once\n"
    fleets.handlers.clear()
    show_logs()
    assert fleets.handlers == []


@pytest.mark.parametrize("is_first", [True, False])
def test_a_handler_that_the_program_gave_fleet_is_the_only_one(
    nothing_set_up: Callable[[], logging.Logger], capsys: pytest.CaptureFixture[str], is_first: bool
) -> None:
    fleets = nothing_set_up()
    own = logging.StreamHandler(sys.stderr)
    if is_first:
        fleets.addHandler(own)
    show_logs()
    if not is_first:
        fleets.addHandler(own)
    fleets.getChild("ps").warning("once")
    assert capsys.readouterr().err == "once\n"


def test_a_level_that_is_set_later_holds_for_fleet(
    nothing_set_up: Callable[[], logging.Logger], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    fleets = nothing_set_up()
    monkeypatch.setattr(logging.getLogger(), "level", logging.WARNING)
    show_logs()
    logging.basicConfig(format="own: %(message)s", level=logging.INFO)
    fleets.info("news")
    assert capsys.readouterr().err == "own: news\n"


def test_what_was_declared_is_one_line() -> None:
    table = TableSpec("ads", 8, RuleSpec("sgd", (("lr", 0.1),)), InitializerSpec("zeros"), EntrySpec("always"))
    shapes = tuple((f"layer{number}.bias", (10,)) for number in range(10))
    blocks = tuple(DenseBlock(name, 0, 10, number % 2, 0) for number, (name, _) in enumerate(shapes))
    dense = DenseSpec((RuleSpec("sgd", (("lr", 0.1),)),), shapes, blocks)
    job = JobSpec(num_workers=2, num_servers=2, mode="sync", tables=(table,), dense=dense)
    assert job_line(job, 1) == (
        "server 1 of 2, 2 workers, sync mode; tables: ads (width 8, sgd); dense parameters: layer0.bias, "
        "layer1.bias, layer2.bias, layer3.bias, layer4.bias, layer5.bias, layer6.bias, layer7.bias and 2 more, "
        "50 values of them here"
    )
