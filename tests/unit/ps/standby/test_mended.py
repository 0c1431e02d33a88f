"""A file that is damaged is mended from the other machine: rows of a server by its copy, and a copy by its server."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from fleet.errors import FleetError
from fleet.ps.journal.files import MARK_NAME, segments_in, snapshots_in, view_of
from fleet.ps.journal.records import read
from fleet.ps.journal.verify import verify
from fleet.ps.server.service import Service
from support.durable.pair import LIMIT_S, Pair, digest, durability_of
from support.processes import wait_until

pytestmark = pytest.mark.timeout(120)


@pytest.fixture
def pair(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Pair]:
    monkeypatch.setenv("FLEET_TABLE_DIR", str(tmp_path / "tables"))
    monkeypatch.setenv("FLEET_SCRUB_RATE", "100000")
    with Pair(tmp_path) as made:
        made.train(np.random.default_rng(0), 2)
        made.settle()
        yield made


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 8
    path.write_bytes(data)


def cut(path: Path) -> None:
    os.truncate(path, path.stat().st_size - 10)


def behead(path: Path) -> None:
    """Make the head of its second record one that no copy can take."""
    data = bytearray(path.read_bytes())
    begin = [record.begin for record in read(path, view_of(path))][1]
    data[begin] ^= 8
    path.write_bytes(data)


def damage_rows(service: Service) -> Path:
    path = service.state.held.files_of_rows()[0]
    flip(path)
    return path


def test_the_copy_takes_the_place_of_a_server_that_has_lost_rows(pair: Pair, caplog: pytest.LogCaptureFixture) -> None:
    wanted, server = digest(pair.copy.state), pair.server
    path = damage_rows(server)
    with caplog.at_level(logging.WARNING):
        durability_of(server).scrub.look()
    assert f"{path}: the copy of this server takes its place" in caplog.text
    assert server.standby is not None
    assert server.standby.ended.wait(LIMIT_S)  # its process ends, and fleetrun gives its place to the copy
    assert "the copy of server 0 is to take its place" in server.standby.failure
    pair.promote()
    assert digest(pair.server.state) == wanted


def test_rows_are_only_named_where_the_copy_is_not_listed(pair: Pair) -> None:
    server = pair.server
    pair.drop_copy()
    path = damage_rows(server)
    durability_of(server).scrub.look()
    assert list(durability_of(server).scrub.damaged) == [path]
    assert server.standby is not None
    assert not server.standby.failure


def test_a_copy_that_has_lost_rows_is_filled_again(pair: Pair, caplog: pytest.LogCaptureFixture) -> None:
    path = damage_rows(pair.copy)
    with caplog.at_level(logging.WARNING):
        durability_of(pair.copy).scrub.look()
    assert f"{path}: its server fills this copy again" in caplog.text
    pair.settle()
    assert digest(pair.copy.state) == digest(pair.server.state)


def test_a_damaged_journal_goes_though_the_copy_reads_on_in_it(pair: Pair) -> None:
    own = durability_of(pair.server)
    flip(segments_in(own.folder)[-1][1])
    own.scrub.look()
    assert not verify(own.folder, least=own.journal.lsn).damaged
    pair.train(np.random.default_rng(1))
    pair.settle()
    assert digest(pair.copy.state) == digest(pair.server.state)
    assert durability_of(pair.copy).counts()["snapshots"] == 0  # it read on, and was not filled again


def test_the_copy_takes_the_place_of_a_server_that_cannot_read_its_journal(pair: Pair) -> None:
    wanted, name = digest(pair.server.state), pair.name(is_copy=False)
    pair.end(name)
    flip(segments_in(pair.folder(name))[0][1])
    with pytest.raises(FleetError, match="offset"):  # with which its process ends, and is not started again
        pair.begin(name)
    pair.promote()
    assert digest(pair.server.state) == digest(pair.copy.state) == wanted


def test_a_file_of_the_journal_that_is_gone_costs_a_server_that_runs_nothing(pair: Pair) -> None:
    server = pair.server
    own = durability_of(server)
    segments_in(own.folder)[-1][1].unlink()
    own.scrub.look()  # a snapshot takes its place; the copy, which read on in that file, is filled again
    pair.train(np.random.default_rng(1))  # which is acknowledged when the copy has it
    pair.settle()
    assert server.standby is not None
    assert not server.standby.failure
    assert digest(pair.copy.state) == digest(server.state)


def test_a_copy_is_not_filled_from_an_older_snapshot_whose_journal_is_gone(
    pair: Pair, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    own = durability_of(pair.server)
    pair.snapshot(pair.server)
    pair.train(np.random.default_rng(1))
    pair.settle()
    write = own._write_snapshot

    def later() -> None:
        wait_until(lambda: "cannot follow" in caplog.text or pair.is_settled(), LIMIT_S, "the copy to ask for files")
        write()

    monkeypatch.setattr(own, "_write_snapshot", later)
    segments_in(own.folder)[-1][1].unlink()
    own.scrub.look()
    pair.settle()
    assert digest(pair.copy.state) == digest(pair.server.state)


def test_a_copy_notices_a_file_that_is_gone_between_two_others(pair: Pair, caplog: pytest.LogCaptureFixture) -> None:
    own = durability_of(pair.server)
    pair.drop_copy()
    for number in (1, 2):
        own.journal.roll()
        pair.train(np.random.default_rng(number))
    segments_in(own.folder)[-2][1].unlink()
    with caplog.at_level(logging.INFO), ThreadPoolExecutor(1) as pool:
        adding = pool.submit(pair.add_copy)
        wait_until(lambda: "begins anew: a file of" in caplog.text or adding.done(), LIMIT_S, "the copy to come so far")
        own.scrub.look()
        adding.result(LIMIT_S)
    assert digest(pair.copy.state) == digest(pair.server.state)


@pytest.fixture
def hidden(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Pair]:
    """A pair without a copy, with three files in the server's journal, which it does not read again by itself."""
    monkeypatch.setenv("FLEET_TABLE_DIR", str(tmp_path / "tables"))
    monkeypatch.setenv("FLEET_SCRUB_RATE", "0")
    with Pair(tmp_path) as made:
        made.drop_copy()
        for number in (1, 2):
            durability_of(made.server).journal.roll()
            made.train(np.random.default_rng(number))
        yield made


@pytest.mark.parametrize(
    ("harm", "index"), [(Path.unlink, 0), (Path.unlink, 1), (Path.unlink, 2), (flip, 1), (cut, 1), (behead, 2)]
)
def test_a_server_looks_at_once_where_no_copy_can_be_filled(
    hidden: Pair, index: int, harm: Callable[[Path], None]
) -> None:
    own = durability_of(hidden.server)
    harm(segments_in(own.folder)[index][1])
    hidden.add_copy()
    assert digest(hidden.copy.state) == digest(hidden.server.state)
    hidden.train(np.random.default_rng(3))
    hidden.settle()
    assert not verify(own.folder, least=own.journal.lsn).damaged
    assert own.counts()["snapshots"] == 1


def test_a_server_looks_at_once_where_its_copy_cannot_read_its_snapshot(hidden: Pair) -> None:
    own = durability_of(hidden.server)
    hidden.snapshot(hidden.server)
    flip(snapshots_in(own.folder)[-1][1])
    hidden.add_copy()
    assert digest(hidden.copy.state) == digest(hidden.server.state)
    assert not verify(own.folder, least=own.journal.lsn).damaged


def test_a_copy_keeps_what_its_server_has_lost_and_takes_its_place(pair: Pair) -> None:
    wanted, name = digest(pair.server.state), pair.name(is_copy=False)
    pair.end(name)
    folder = pair.folder(name)
    _, last = segments_in(folder)[-1]
    ends = [record.end for record in read(last, view_of(last))]
    with last.open("r+b") as file:
        file.truncate(ends[-2])
    (folder / MARK_NAME).unlink()  # it would know of the last record
    server = pair.begin(name)
    assert server.standby is not None
    assert server.standby.ended.wait(LIMIT_S)
    assert "server 0 has lost records that its copy has" in server.standby.failure
    pair.promote()
    assert digest(pair.server.state) == digest(pair.copy.state) == wanted
