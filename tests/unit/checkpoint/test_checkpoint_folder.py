"""Folders: begun, committed, replaced, aborted, found; and nothing of anybody else's is ever deleted."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import numpy as np
import pytest

from fleet.checkpoint import (
    BlockData,
    BlockForm,
    InferenceIndex,
    Manifest,
    abort,
    begin,
    check_files,
    commit,
    find,
    load_dense,
    read_manifest,
    save_dense,
)
from fleet.checkpoint.folders.folder import remove
from fleet.errors import CheckpointError

BLOCK = BlockForm("w", 0, 3, 3, "sgd")
NONE = np.zeros(0, np.float32)


def write(writing: Path, version: int) -> Manifest:
    data = BlockData(BLOCK, np.full(3, version, np.float32), (), NONE)
    return Manifest(version, 1, tuple(save_dense(writing, 0, 1, [data])))


def save(folder: Path, version: int) -> None:
    writing = begin(folder)
    commit(writing, folder, write(writing, version))


def loaded(folder: Path) -> int:
    where = find(folder)
    manifest = read_manifest(where)
    check_files(where, manifest, reread=True)
    values = load_dense(manifest, where, [BLOCK])[0].values
    assert (values == manifest.version).all()
    return manifest.version


def test_a_save_and_its_successor(tmp_path: Path) -> None:
    save(tmp_path / "c", 1)
    assert loaded(tmp_path / "c") == 1
    save(tmp_path / "c", 2)
    assert loaded(tmp_path / "c") == 2
    assert os.listdir(tmp_path) == ["c"]
    assert len(os.listdir(tmp_path / "c")) == 2


def test_parents_are_made_and_an_empty_folder_is_welcome(tmp_path: Path) -> None:
    save(tmp_path / "a" / "b" / "c", 1)
    (tmp_path / "empty").mkdir()
    save(tmp_path / "empty", 3)
    assert (loaded(tmp_path / "a" / "b" / "c"), loaded(tmp_path / "empty")) == (1, 3)


def test_until_the_commit_nothing_is_seen(tmp_path: Path) -> None:
    writing = begin(tmp_path / "c")
    write(writing, 1)
    assert writing.name.startswith(".c.writing-")
    with pytest.raises(CheckpointError, match="no checkpoint in .*/c: there is no such folder"):
        find(tmp_path / "c")
    abort(writing)
    assert not os.listdir(tmp_path)
    abort(writing)


def test_an_aborted_save_keeps_the_old_one(tmp_path: Path) -> None:
    save(tmp_path / "c", 1)
    writing = begin(tmp_path / "c")
    write(writing, 2)
    abort(writing)
    assert loaded(tmp_path / "c") == 1
    assert os.listdir(tmp_path) == ["c"]


def test_a_folder_without_manifest_is_no_checkpoint(tmp_path: Path) -> None:
    folder = tmp_path / "c"
    folder.mkdir()
    with pytest.raises(CheckpointError, match="it is empty; give the folder that was saved"):
        find(folder)
    for name in ("a.txt", "b.txt", "c.txt", "d.txt"):
        (folder / name).touch()
    with pytest.raises(CheckpointError, match="it holds a.txt, b.txt, c.txt and 1 more and nothing of a save; give"):
        find(folder)
    (folder / "model.piece-0000.safetensors").touch()
    with pytest.raises(CheckpointError, match=r"it has no manifest.json, so its save did not finish"):
        find(folder)


@pytest.mark.parametrize("reread", [False, True])
def test_a_commit_wants_every_piece(tmp_path: Path, reread: bool) -> None:
    writing = begin(tmp_path / "c")
    manifest = write(writing, 1)
    path = writing / manifest.files[0].name
    data = path.read_bytes()
    path.unlink()
    with pytest.raises(CheckpointError, match=f"{path.name} is missing"):
        commit(writing, tmp_path / "c", manifest, reread=reread)
    path.write_bytes(data[:-1])
    with pytest.raises(CheckpointError, match="saved were"):
        commit(writing, tmp_path / "c", manifest, reread=reread)
    path.write_bytes(data)
    commit(writing, tmp_path / "c", manifest, reread=reread)
    assert loaded(tmp_path / "c") == 1


def test_a_commit_that_rereads_finds_a_flipped_bit(tmp_path: Path) -> None:
    writing = begin(tmp_path / "c")
    manifest = write(writing, 1)
    path = writing / manifest.files[0].name
    path.write_bytes(path.read_bytes()[:-1] + b"x")
    with pytest.raises(CheckpointError, match="its checksum is"):
        commit(writing, tmp_path / "c", manifest, reread=True)
    assert not (writing / "manifest.json").exists()


def test_a_file_that_nobody_reported_stops_the_commit(tmp_path: Path) -> None:
    writing = begin(tmp_path / "c")
    manifest = write(writing, 1)
    (writing / "x.safetensors").write_bytes(b"")
    with pytest.raises(CheckpointError, match="x.safetensors was written by nobody"):
        commit(writing, tmp_path / "c", manifest)


def test_files_of_servers_whose_place_others_took_are_removed(tmp_path: Path) -> None:
    writing = begin(tmp_path / "c")
    manifest = write(writing, 1)
    for stray in (
        "table-a.server-000-of-002.00-0000000024-73d5fb12b7a638f8.run",
        "dense.server-001-of-003.safetensors",
    ):
        (writing / stray).write_bytes(b"")
    commit(writing, tmp_path / "c", manifest)
    assert loaded(tmp_path / "c") == 1
    assert {one.name for one in (tmp_path / "c").iterdir()} == {
        "manifest.json",
        *(file.name for file in manifest.files),
    }


def test_a_commit_goes_on_where_a_former_life_was_killed(tmp_path: Path) -> None:
    writing = begin(tmp_path / "c")
    manifest = write(writing, 1)
    (writing / f"{Manifest.FILE}.unfinished").write_text("the beginning of")
    commit(writing, tmp_path / "c", manifest)
    assert loaded(tmp_path / "c") == 1


def test_what_is_not_ours_is_never_replaced(tmp_path: Path) -> None:
    (tmp_path / "c").mkdir()
    (tmp_path / "c" / "thesis.txt").write_text("years of work")
    save(tmp_path / "c", 1)
    save(tmp_path / "c", 2)
    assert loaded(tmp_path / "c") == 2
    assert (tmp_path / "c" / "thesis.txt").read_text() == "years of work"
    with pytest.raises(CheckpointError, match=r"cannot delete .* it holds 'thesis.txt', which is no part of the"):
        remove(tmp_path / "c", Manifest)
    for path in (tmp_path / "c").iterdir():
        if path.name != "thesis.txt":
            path.unlink()
    (tmp_path / "c" / "thesis.txt").rename(tmp_path / "c" / "manifest.json")
    with pytest.raises(CheckpointError, match=r"manifest.json is damaged: it is not JSON"):
        begin(tmp_path / "c")
    (tmp_path / "c" / "manifest.json").write_text('{"format": "other"}')
    with pytest.raises(CheckpointError, match=r"manifest.json is not Fleet's"):
        begin(tmp_path / "c")
    with pytest.raises(CheckpointError, match=r"it is a file; name a folder"):
        begin(tmp_path / "c" / "manifest.json")
    assert os.listdir(tmp_path) == ["c"]


def test_a_file_beside_the_pieces_is_not_deleted(tmp_path: Path) -> None:
    save(tmp_path / "c", 1)
    (tmp_path / "c" / "notes").mkdir()
    (tmp_path / "c" / "notes" / "n.txt").write_text("mine")
    save(tmp_path / "c", 2)
    assert (tmp_path / "c" / "notes" / "n.txt").read_text() == "mine"
    assert loaded(tmp_path / "c") == 2


def test_a_file_put_there_while_saving_is_not_deleted(tmp_path: Path) -> None:
    writing = begin(tmp_path / "c")
    manifest = write(writing, 1)
    (tmp_path / "c").mkdir()
    (tmp_path / "c" / "mine").write_text("")
    commit(writing, tmp_path / "c", manifest)
    assert (tmp_path / "c" / "mine").exists()
    assert loaded(tmp_path / "c") == 1


def test_files_are_copied_where_there_are_no_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_links(*_: object, **__: object) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", no_links)
    (tmp_path / "c").mkdir()
    (tmp_path / "c" / "mine").write_text("kept")
    save(tmp_path / "c", 1)
    assert (tmp_path / "c" / "mine").read_text() == "kept"


def test_an_inference_copy_does_not_replace_a_checkpoint(tmp_path: Path) -> None:
    save(tmp_path / "c", 1)
    writing = begin(tmp_path / "c", InferenceIndex)
    commit(writing, tmp_path / "c", InferenceIndex(1, 1, ()))
    assert loaded(tmp_path / "c") == 1
    assert (tmp_path / "c" / InferenceIndex.FILE).exists()


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    save(tmp_path / "real", 1)
    (tmp_path / "latest").symlink_to("real")
    save(tmp_path / "latest", 2)
    assert (tmp_path / "latest").is_symlink()
    assert loaded(tmp_path / "real") == loaded(tmp_path / "latest") == 2


def test_a_new_save_overtakes_one_that_still_runs(tmp_path: Path) -> None:
    first = begin(tmp_path / "c")
    manifest = write(first, 1)
    second = begin(tmp_path / "c")
    with pytest.raises(CheckpointError, match="another save into the same folder has begun"):
        write(first, 1)
    with pytest.raises(CheckpointError, match="cannot commit .*another save into the same folder has begun"):
        commit(first, tmp_path / "c", manifest)
    commit(second, tmp_path / "c", write(second, 2))
    assert loaded(tmp_path / "c") == 2


def test_neighbours_are_left_alone(tmp_path: Path) -> None:
    other = begin(tmp_path / "c2")
    for name in (".c.writing-notes", ".c.writing-12345678.txt", "c.writing-12345678", ".xc.writing-12345678"):
        (tmp_path / name).mkdir()
    before = set(os.listdir(tmp_path))
    save(tmp_path / "c", 1)
    assert set(os.listdir(tmp_path)) == before | {"c"}
    assert other.exists()


def test_roots_and_long_names_are_refused(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="name a folder inside it"):
        begin("/")
    with pytest.raises(CheckpointError, match="it is a mount point"):
        begin("/proc")
    with pytest.raises(CheckpointError, match="File name too long"):
        begin(tmp_path / ("x" * 250))


def test_a_commit_that_cannot_rename_keeps_the_old_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save(tmp_path / "c", 1)
    writing = begin(tmp_path / "c")
    manifest = write(writing, 2)
    rename = os.rename

    def failing(source: Path, target: Path) -> None:
        if source == writing:
            raise PermissionError(13, "Permission denied", str(source))
        rename(source, target)

    monkeypatch.setattr(os, "rename", failing)
    with pytest.raises(CheckpointError, match="cannot commit .*/c: Permission denied"):
        commit(writing, tmp_path / "c", manifest)
    monkeypatch.undo()
    assert loaded(tmp_path / "c") == 1
    abort(writing)
    assert os.listdir(tmp_path) == ["c"]
