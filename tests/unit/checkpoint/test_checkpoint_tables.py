"""Tables: saved by some servers, loaded by as many or by others, bit for bit."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fleet import _native
from fleet.checkpoint import (
    ChainLink,
    Manifest,
    TableLoad,
    abort,
    begin,
    commit,
    find,
    pieces_from_text,
    pieces_to_text,
    read_manifest,
    save_table,
)
from fleet.checkpoint.state.tables import may_share_keys
from fleet.errors import CheckpointError
from support.fake_table import FakeTable, Rows, joined, random_rows, same

SMALL: Any = {"dtype": "float32", "rule": "adam"}


def servers_with(rows: Rows, num_servers: int, **form: Any) -> list[FakeTable]:
    tables = [FakeTable(**form) for _ in range(num_servers)]
    for server, table in enumerate(tables):
        table.import_(rows, server, num_servers)
    return tables


def save(
    tables: list[FakeTable], folder: Path, name: str = "ads", version: int = 1, rule: str = "adam", **options: Any
) -> Manifest:
    """What servers and the one who commits do, with the servers in parallel."""
    writing = begin(folder)

    def serve(server: int) -> str:
        table = tables[server]
        pieces = save_table(table, name, writing, server, len(tables), dtype=table.dtype, rule=rule, **options)
        return pieces_to_text(pieces)

    with ThreadPoolExecutor(len(tables)) as pool:
        replies = list(pool.map(serve, range(len(tables))))
    pieces = [piece for reply in replies for piece in pieces_from_text(reply, "a server")]
    commit(writing, folder, Manifest(version, len(tables), tuple(pieces), job={"x": [1]}))
    return read_manifest(find(folder))


def load(folder: Path, num_servers: int, name: str = "ads", rule: str = "adam", **form: Any) -> list[FakeTable]:
    where = find(folder)
    manifest = read_manifest(where)
    tables = [FakeTable(**form) for _ in range(num_servers)]
    for server, table in enumerate(tables):
        count = TableLoad(
            table, [ChainLink(where, manifest)], name, server, num_servers, dtype=table.dtype, rule=rule
        ).load()
        assert count == len(table)
    return tables


@pytest.mark.parametrize(
    "form", [{}, {"dtype": "float16"}, {"dtype": "bfloat16"}, {"has_clicks": True}, {"state_width": 0}]
)
@pytest.mark.parametrize(("before", "after"), [(1, 1), (2, 2), (2, 3), (3, 1), (1, 4)])
def test_round_trip_into_any_number_of_servers(tmp_path: Path, before: int, after: int, form: dict[str, Any]) -> None:
    rows = random_rows(500, 60, **form)
    manifest = save(servers_with(rows, before, **form), tmp_path / "c", piece_bytes=2000)
    assert manifest.rows("ads") == 500
    assert len(manifest.pieces) > 2 * before
    tables = load(tmp_path / "c", after, **form)
    assert same(joined([table.rows for table in tables]), rows)
    for server, table in enumerate(tables):
        assert (_native.server_of(table.rows["keys"], after) == server).all()


def test_the_manifest_tells_it_all(tmp_path: Path) -> None:
    manifest = save(servers_with(random_rows(100, 7), 2), tmp_path / "c", version=42)
    assert (manifest.version, manifest.num_servers, manifest.job) == (42, 2, {"x": [1]})
    assert list(manifest.tables) == ["ads"]
    assert sum(piece.waiting for piece in manifest.tables["ads"]) == 7
    names = sorted(os.listdir(tmp_path / "c"))
    assert names[0] == "manifest.json"
    assert names[1] == "table-ads.server-000-of-002.piece-0000.safetensors"


def test_an_empty_table_is_saved_and_loaded(tmp_path: Path) -> None:
    save(servers_with(random_rows(0), 2), tmp_path / "c")
    assert [len(table) for table in load(tmp_path / "c", 3)] == [0, 0, 0]


@pytest.mark.parametrize("name", ["a/b", "..", "ü", "x" * 3000])
def test_any_table_name(tmp_path: Path, name: str) -> None:
    rows = random_rows(20)
    save(servers_with(rows, 1), tmp_path / "c", name)
    assert same(load(tmp_path / "c", 1, name)[0].rows, rows)


def test_pieces_stay_near_their_size(tmp_path: Path) -> None:
    manifest = save(servers_with(random_rows(4000), 1), tmp_path / "c", piece_bytes=60_000)
    sizes = [file.size_bytes for file in manifest.files]
    assert len(sizes) == FakeTable.num_shards // 2
    assert max(sizes) < 66_000


def test_only_pieces_that_can_hold_own_keys_are_read(tmp_path: Path) -> None:
    save(servers_with(random_rows(300), 4), tmp_path / "c")
    where = find(tmp_path / "c")
    manifest = read_manifest(where)
    for piece in manifest.tables["ads"]:
        if piece.server >= 2:
            (where / piece.file.name).unlink()
    table = FakeTable()
    TableLoad(table, [ChainLink(where, manifest)], "ads", 1, 4, **SMALL).load()
    TableLoad(table, [ChainLink(where, manifest)], "ads", 0, 2, **SMALL).load()
    assert len(table) > 100
    with pytest.raises(CheckpointError, match="server-002-of-004.* is missing"):
        TableLoad(table, [ChainLink(where, manifest)], "ads", 1, 2, **SMALL).load()


@pytest.mark.parametrize(("before", "after"), [(2, 3), (3, 7), (8, 4), (5, 5), (1000, 999)])
def test_placement_is_by_ranges_of_the_hash(before: int, after: int) -> None:
    keys = np.random.default_rng(0).integers(-(2**63), 2**63 - 1, 20_000, np.int64)
    pairs = set(zip(_native.server_of(keys, before).tolist(), _native.server_of(keys, after).tolist(), strict=True))
    assert all(may_share_keys(saved, before, server, after) for saved, server in pairs)
    if before < 10:
        possible = {(s, t) for s in range(before) for t in range(after) if may_share_keys(s, before, t, after)}
        assert possible == pairs


def test_a_load_replaces_what_the_table_held(tmp_path: Path) -> None:
    rows = random_rows(50, 5)
    save(servers_with(rows, 1), tmp_path / "c")
    table = servers_with(random_rows(70, 3, seed=1), 1)[0]
    where = find(tmp_path / "c")
    TableLoad(table, [ChainLink(where, read_manifest(where))], "ads", 0, 1, **SMALL).load()
    assert same(table.rows, rows)


@pytest.mark.parametrize(
    ("form", "options", "message"),
    [
        ({"width": 5}, {}, "table 'ads' does not fit .*: width is 5 here and 4 in the checkpoint"),
        ({"dtype": "bfloat16"}, {}, "dtype is 'bfloat16' here and 'float32' in"),
        ({"state_width": 9}, {}, "state_width is 9 here and 5 in"),
        ({"has_clicks": True}, {}, "has_clicks is True here and False in"),
        ({}, {"rule": "rmsprop"}, "rule is 'rmsprop' here and 'adam' in"),
        ({}, {"name": "users"}, "has no table 'users'; its tables: 'ads'"),
    ],
)
def test_another_form_is_refused(tmp_path: Path, form: dict[str, Any], options: dict[str, str], message: str) -> None:
    save(servers_with(random_rows(20), 1), tmp_path / "c")
    with pytest.raises(CheckpointError, match=message):
        load(tmp_path / "c", 1, **options, **form)


def test_a_damaged_piece_leaves_the_table_empty_not_half_full(tmp_path: Path) -> None:
    manifest = save(servers_with(random_rows(400), 1), tmp_path / "c", piece_bytes=3000)
    path = tmp_path / "c" / manifest.files[-1].name
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    table = servers_with(random_rows(9, seed=1), 1)[0]
    with pytest.raises(CheckpointError, match=f"{path.name} is damaged: its checksum"):
        TableLoad(table, [ChainLink(tmp_path / "c", manifest)], "ads", 0, 1, **SMALL).load()
    assert len(table) == 0


def test_a_missing_or_short_piece_changes_nothing(tmp_path: Path) -> None:
    manifest = save(servers_with(random_rows(400), 1), tmp_path / "c", piece_bytes=3000)
    table = servers_with(random_rows(9, seed=1), 1)[0]
    os.truncate(tmp_path / "c" / manifest.files[-1].name, 100)
    with pytest.raises(CheckpointError, match="it has 100 bytes"):
        TableLoad(table, [ChainLink(tmp_path / "c", manifest)], "ads", 0, 1, **SMALL).load()
    (tmp_path / "c" / manifest.files[-1].name).unlink()
    with pytest.raises(CheckpointError, match="is missing"):
        TableLoad(table, [ChainLink(tmp_path / "c", manifest)], "ads", 0, 1, **SMALL).load()
    assert len(table) == 9


def test_rows_of_another_server_are_recognised(tmp_path: Path) -> None:
    tables = servers_with(random_rows(100), 2)
    save(tables[::-1], tmp_path / "c")
    with pytest.raises(CheckpointError, match="of its .* keys belong elsewhere"):
        load(tmp_path / "c", 2)


def test_an_export_of_the_wrong_shape_is_not_saved(tmp_path: Path) -> None:
    table = servers_with(random_rows(20), 1)[0]
    table.rows["state"] = table.rows["state"][:, :3]
    writing = begin(tmp_path / "c")
    with pytest.raises(CheckpointError, match=r"state is float32\[.*, 3\], expected float32\[.*, 5\]"):
        save_table(table, "ads", writing, 0, 1, dtype="float32", rule="adam")
    abort(writing)


def test_only_one_group_of_shards_is_copied_at_a_time(tmp_path: Path) -> None:
    alive = [0, 0]

    class Watched(dict[str, Any]):
        def __init__(self, rows: Rows) -> None:
            super().__init__(rows)
            alive[0] += 1
            alive[1] = max(alive)

        def __del__(self) -> None:
            alive[0] -= 1

    class Table(FakeTable):
        def export(self, first_shard: int, last_shard: int) -> Rows:
            return Watched(super().export(first_shard, last_shard))

    table = Table()
    table.import_(random_rows(200), 0, 1)
    writing = begin(tmp_path / "c")
    assert len(save_table(table, "ads", writing, 0, 1, dtype="float32", rule="adam", piece_bytes=1)) == Table.num_shards
    assert alive == [0, 1]
    abort(writing)
