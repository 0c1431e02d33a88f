"""File names of tables and parameters: safe whatever the name, and never the same for two."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet.checkpoint.files.names import MAX_LENGTH, file_name_of

NAMES = ["a/b", "..", ".", "", "a%2Fb", "名前", "x" * 5000, "x" * 5001, "é" * 300, "a\0b", "~", "\ud800", "A b", "-rf"]


@pytest.mark.parametrize("name", NAMES)
def test_any_name_gives_a_file_in_the_same_folder(tmp_path: Path, name: str) -> None:
    path = tmp_path / f"{file_name_of(name)}.part-000-of-001.values.npy"
    path.write_bytes(b"x")
    assert [found.name for found in tmp_path.iterdir()] == [path.name]
    assert path.resolve().parent == tmp_path.resolve()


def test_names_are_told_apart() -> None:
    assert len({file_name_of(name) for name in NAMES}) == len(NAMES)


@pytest.mark.parametrize("name", ["ads", "user_id", "fc1.weight", "a-b"])
def test_plain_names_stay(name: str) -> None:
    assert file_name_of(name) == name


@given(st.text(max_size=200), st.text(max_size=200))
def test_no_two_names_share_a_file(one: str, other: str) -> None:
    assert (file_name_of(one) == file_name_of(other)) == (one == other)
    assert 0 < len(file_name_of(one)) <= MAX_LENGTH
    assert set(file_name_of(one)) <= set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-%~")
    assert not file_name_of(one).startswith(".")
