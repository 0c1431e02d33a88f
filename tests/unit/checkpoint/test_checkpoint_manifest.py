"""Manifests: they read back as written, and what is missing, doubled, foreign or newer is named."""

from __future__ import annotations

import json
import logging
from dataclasses import replace
from typing import Any

import pytest

from fleet.checkpoint import BlockForm, DensePiece, FileInfo, Manifest, TableForm, TablePiece, TrainingManifest
from fleet.checkpoint.folders.seal import seal
from fleet.errors import CheckpointError, FleetError
from support.durable.damage import resealed

FORM = TableForm(4, "bfloat16", "adam", 9, False)


def table_piece(server: int, first: int, last: int, table: str = "ads", form: TableForm = FORM) -> TablePiece:
    return TablePiece(
        FileInfo(f"{table}-{server}-{first}", 1, "crc32c:00000002"), table, server, first, last, 64, 10, 3, form
    )


def dense_piece(server: int, *spans: tuple[int, int], size: int = 10) -> DensePiece:
    blocks = tuple(BlockForm("w", begin, end, size, "adam", 2, 1) for begin, end in spans)
    return DensePiece(FileInfo(f"dense-{server}", 1, "crc32c:00000002"), server, blocks)


PIECES = (table_piece(0, 0, 32), table_piece(0, 32, 64), table_piece(1, 0, 64), dense_piece(0, (0, 4), (6, 10)),
          dense_piece(1, (4, 6)))  # fmt: skip
MANIFEST = Manifest(7, 2, PIECES, job={"tables": [{"ü": 1.5}]}, extra={"epoch": 3})


def test_round_trip() -> None:
    assert Manifest.from_text(MANIFEST.to_text(), "m") == MANIFEST


def test_it_says_which_moment_it_is_of_where_that_is_known() -> None:
    made = replace(MANIFEST, steps=(1200, 1187), versions=(2387, 2387))
    assert Manifest.from_text(made.to_text(), "it") == made
    assert "steps" not in json.loads(MANIFEST.to_text())  # as those of earlier versions
    assert Manifest.from_text(MANIFEST.to_text(), "it").steps == ()
    with pytest.raises(CheckpointError, match="steps"):
        Manifest.from_text(replace(MANIFEST, steps=(-1,)).to_text(), "it")


def test_it_is_stable_json_that_says_what_it_is() -> None:
    found = json.loads(MANIFEST.to_text())
    assert found["format"] == "fleet-checkpoint"
    assert found["format_version"] == 2
    assert list(found)[-1] == "checksum"
    assert found["created"].endswith("+00:00")
    assert {piece["kind"] for piece in found["pieces"]} == {"table", "dense"}


def test_another_format_version_is_refused() -> None:
    text = damaged("format_version", value=3)
    with pytest.raises(CheckpointError, match=r"m has format version 3, written by fleet .*; use the fleet that wrote"):
        Manifest.from_text(text, "m")


@pytest.mark.parametrize(
    ("pieces", "message"),
    [
        (PIECES[:2], "m has no piece of table 'ads' from server 1 of 2"),
        (PIECES[1:], "m misses or doubles shard 0 of table 'ads' from server 0"),
        ((PIECES[0], PIECES[2]), "m misses shard 32 of table 'ads' from server 0"),
        ((*PIECES, PIECES[0]), "m names piece ads-0-0 2 times"),
        ((*PIECES, table_piece(2, 0, 64)), "from server 2 of 2"),
        ((*PIECES[:2], table_piece(1, 0, 64, form=replace(FORM, width=5))), "servers 0 and 1 saved other forms"),
        (PIECES[:4], "m misses elements 4 to 5 of parameter 'w'"),
        ((dense_piece(0, (0, 9)),), "m misses elements 9 to 9 of parameter 'w'"),
        ((dense_piece(0, (0, 6)), dense_piece(1, (4, 10))), "m doubles elements 4 to 5 of parameter 'w'"),
        ((dense_piece(0, (0, 4)), dense_piece(1, (4, 8), size=8)), "blocks disagree about the number of elements"),
    ],
)
def test_what_is_missing_or_doubled_is_named(pieces: tuple[Any, ...], message: str) -> None:
    manifest = replace(MANIFEST, pieces=pieces)
    with pytest.raises(CheckpointError, match=message):
        manifest.check("m")
    with pytest.raises(CheckpointError, match=message):
        Manifest.from_text(manifest.to_text(), "m")


def damaged(*path: Any, value: Any) -> str:
    found = json.loads(MANIFEST.to_text())
    at = found
    for step in path[:-1]:
        at = at[step]
    at[path[-1]] = value
    return resealed(found)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "m is damaged: it is not JSON"),
        ("[" * 100_000, "m is damaged: it is not JSON"),
        ("[]", "an object was expected"),
        ("{}", "m is not Fleet's"),
        ('{"format": "fleet-checkpoint"}', "'format_version' is missing"),
        (damaged("version", value=-1), "'version' must be a whole number"),
        (damaged("version", value=True), "'version' must be a whole number"),
        (damaged("num_servers", value=0), "'num_servers' must be a whole number from 1"),
        (damaged("job", value=[]), "'job' must be an object"),
        (damaged("pieces", value={}), "'pieces' must be a list"),
        (damaged("pieces", 1, value=3), r"m, pieces\[1\] is damaged: an object was expected, got 3"),
        (damaged("pieces", 1, "kind", value="x"), "unknown kind 'x'"),
        (damaged("pieces", 0, "rows", value="9"), "'rows' must be a whole number"),
        (damaged("pieces", 0, "form", "dtype", value="float8"), "unknown dtype 'float8'"),
        (damaged("pieces", 0, "last_shard", value=65), "'last_shard' must be a whole number from 1 to 64"),
        (damaged("pieces", 3, "blocks", 0, "end", value=11), "'end' must be a whole number from 0 to 10"),
        (damaged("pieces", 0, "file", "checksum", value="md5:00"), "'md5:00' is no checksum"),
        *(
            (damaged("pieces", 0, "file", "name", value=name), "is not the name of a file in that folder")
            for name in ["../x", "/etc/passwd", "", ".", "a/../../b", "a//b", "a\0b"]
        ),
    ],
)
def test_a_damaged_manifest_is_refused(text: str, message: str) -> None:
    with pytest.raises(CheckpointError, match=message):
        Manifest.from_text(text, "m")


def test_the_error_is_an_os_error_too() -> None:
    assert issubclass(CheckpointError, FleetError)
    assert issubclass(CheckpointError, OSError)
    assert str(CheckpointError("one line")) == "one line"


def test_the_manifest_of_a_training_run_is_called_by_its_name() -> None:
    text = TrainingManifest(step=1, forms={}, pieces=(), shared={}, workers=()).to_text()
    with pytest.raises(
        CheckpointError, match="^m belongs to a training checkpoint, which fleet.Checkpoint in a collective job reads$"
    ):
        Manifest.from_text(text, "m")


def test_no_byte_of_a_manifest_changes_unnoticed() -> None:
    good = MANIFEST.to_text().encode()
    for place in range(len(good)):
        for change in (1, 2, 128):  # of the version, 2 becomes 3 and 0
            bad = bytearray(good)
            bad[place] ^= change
            with pytest.raises(CheckpointError, match="^m"):
                Manifest.from_text(bytes(bad), "m")
    for text in (good + b"\n", good[:-1], json.dumps(json.loads(good)).encode()):
        with pytest.raises(CheckpointError, match="m is damaged: it does not end with its checksum"):
            Manifest.from_text(text, "m")


def first_version(**more: Any) -> dict[str, Any]:
    """The manifest as the first version wrote it: no seal, no id, sums as numbers."""
    found = {**json.loads(MANIFEST.to_text()), "format_version": 1, **more}
    for piece in found["pieces"]:
        piece["file"] = {"name": piece["file"]["name"], "size_bytes": 1, "crc32": 2}
    return {name: value for name, value in found.items() if name not in ("checksum", "save")}


def test_a_manifest_of_the_first_version_is_read(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "fleet.checkpoint")
    found = Manifest.from_text(json.dumps(first_version(), indent=1), "m")
    assert (found.version, found.rows("ads")) == (7, 30)
    assert {file.checksum for file in found.files} == {"crc32:00000002"}
    assert "m is of a version without a checksum of its own" in caplog.text


def test_a_version_cannot_be_put_back() -> None:
    text = MANIFEST.to_text().replace('"format_version": 2', '"format_version": 1')
    with pytest.raises(CheckpointError, match="m is damaged: its checksum is"):
        Manifest.from_text(text, "m")
    for bad in (text[:-1], text.replace('"checksum": "crc32c:', '"checksun": "crc32c:'), text.replace("}\n", "}")):
        with pytest.raises(CheckpointError, match="m is damaged: version 1 of its format has no 'checksum'"):
            Manifest.from_text(bad, "m")
    with pytest.raises(CheckpointError, match="m is damaged: version 1 of its format has no 'checksum'"):
        Manifest.from_text(seal(first_version(), {}), "m")
