"""fleet.data.places.opening: which files a user means, and their bytes, packed or behind URLs."""

from __future__ import annotations

import gzip
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import fsspec
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from fleet.data.places import opening
from fleet.errors import UsageError, UsageTypeError

TEXT = b"".join(b"%d\t%x\n" % (number, number * 7919) for number in range(50_000))


@pytest.fixture
def memory() -> Iterator[str]:
    """A folder of fsspec's file system in memory."""
    files = fsspec.filesystem("memory")
    files.store.clear()
    yield "memory://clicks"
    files.store.clear()


def names(found: list[tuple[str, int]]) -> list[str]:
    return [os.path.basename(path) for path, _ in found]


def test_a_folder_a_glob_and_a_file(tmp_path: Path) -> None:
    for name in ("b.tsv", "a.tsv", "_SUCCESS", ".a.tsv.crc", "c.tsv.tmp", "d.txt"):
        (tmp_path / name).write_bytes(b"x" * len(name))
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "e.tsv").write_bytes(b"e")
    folder = str(tmp_path)
    assert opening.list_files(folder) == [(f"{folder}/{name}", 5) for name in ("a.tsv", "b.tsv", "d.txt")]
    assert names(opening.list_files(f"{folder}/*.tsv")) == ["a.tsv", "b.tsv"]
    assert names(opening.list_files(f"{folder}/**")) == ["a.tsv", "b.tsv", "d.txt", "e.tsv"]
    assert names(opening.list_files(f"{folder}/inn*")) == ["e.tsv"]
    assert names(opening.list_files([tmp_path / "d.txt", tmp_path / "a.tsv"])) == ["d.txt", "a.tsv"]
    assert names(opening.list_files(tmp_path / "_SUCCESS")) == ["_SUCCESS"]
    assert names(opening.list_files(f"{folder}/_S*")) == ["_SUCCESS"]
    assert opening.list_files(f"file://{folder}/a.tsv") == [(f"{folder}/a.tsv", 5)]


def test_what_lies_below_a_hidden_folder_is_passed_over(tmp_path: Path) -> None:
    (tmp_path / "_temporary").mkdir()
    (tmp_path / "_temporary" / "part-0").write_bytes(b"x")
    (tmp_path / "part-0").write_bytes(b"x")
    assert opening.list_files(f"{tmp_path}/**") == [(f"{tmp_path}/part-0", 1)]


def test_a_name_with_brackets_is_a_name_where_there_is_such_a_file(tmp_path: Path) -> None:
    (tmp_path / "a[1].tsv").write_bytes(b"x")
    assert opening.list_files(tmp_path / "a[1].tsv") == [(f"{tmp_path}/a[1].tsv", 1)]


def test_what_is_not_there(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "a.tsv").write_bytes(b"x")
    for paths, what in (
        (tmp_path / "gone.tsv", "there is no file or folder .*gone.tsv"),
        ("gone/x.tsv", "there is no file or folder gone/x.tsv in /"),
        (f"{tmp_path}/*.csv", r"no file matches .*\*.csv"),
        (tmp_path / "empty", r"no file lies in .*empty; to enter the folders in it, write .*empty/\*\*"),
        ([], "the list of paths is empty"),
        ([tmp_path / "a.tsv", f"{tmp_path}/*"], "a.tsv is named twice"),
        ([tmp_path / "a.tsv", f"{tmp_path}/../{tmp_path.name}/a.tsv"], "a.tsv is named twice"),
        ("nosuch://x", "nosuch://x cannot be read: .*nosuch"),
    ):
        with pytest.raises(UsageError, match=what):
            opening.list_files(paths)  # type: ignore[arg-type]
    for wrong in (b"a.tsv", 7, [7]):
        with pytest.raises(UsageTypeError, match="named by"):
            opening.list_files(wrong)  # type: ignore[arg-type]
    for call in (opening.open, opening.size_of):
        with pytest.raises(UsageError, match="gone.tsv is not there, or not any more"):
            call(str(tmp_path / "gone.tsv"))
    with pytest.raises(UsageError, match="cannot be read: Is a directory"):
        opening.open(str(tmp_path))


def test_urls(memory: str) -> None:
    files = fsspec.filesystem("memory")
    for name, content in (
        ("a.tsv", TEXT),
        ("b.tsv.gz", gzip.compress(TEXT, 1)),
        ("_SUCCESS", b""),
        ("deep/c.tsv", b"c"),
    ):
        files.pipe(f"/clicks/{name}", content)
    assert names(opening.list_files(memory)) == ["a.tsv", "b.tsv.gz"]
    assert names(opening.list_files(f"{memory}/**")) == ["a.tsv", "b.tsv.gz", "c.tsv"]
    assert names(opening.list_files(f"{memory}/_SUCCESS")) == ["_SUCCESS"]
    found = opening.list_files(f"{memory}/*.tsv*")
    assert names(found) == ["a.tsv", "b.tsv.gz"]
    for path, size in found:
        assert opening.size_of(path) == size
        with opening.open(path) as text:
            assert text.read() == TEXT
    with opening.open(found[0][0]) as text:
        text.seek(1000)
        assert text.read(50) == TEXT[1000:1050]
    for wrong in (f"{memory}/gone", "memory://nothing"):
        with pytest.raises(UsageError, match=f"there is no file {wrong}"):
            opening.list_files(wrong)
        with pytest.raises(UsageError, match=f"there is no file {wrong}"):
            opening.open(wrong)
    with pytest.raises(UsageError, match="no file matches memory://clicks/x"):
        opening.list_files(f"{memory}/x*")


def test_a_chain_of_file_systems(memory: str) -> None:
    fsspec.filesystem("memory").pipe("/clicks/a.tsv", b"aa")
    [(path, size)] = opening.list_files(f"simplecache::{memory}/*.tsv")
    assert (path, size) == ("simplecache::memory:///clicks/a.tsv", 2)
    with opening.open(path) as text:
        assert text.read() == b"aa"


def packed(ending: str, content: bytes) -> bytes:
    if ending == ".gz":
        return gzip.compress(content, 1)
    return zstandard.ZstdCompressor(write_checksum=True).compress(content)


@pytest.mark.parametrize("ending", [".gz", ".zst"])
class TestPacked:
    def test_in_pieces(self, tmp_path: Path, ending: str) -> None:
        path = tmp_path / f"a.tsv{ending}"
        path.write_bytes(packed(ending, TEXT[:100_000]) + packed(ending, b"") + packed(ending, TEXT[100_000:]))
        with opening.open(str(path)) as text:
            pieces = list(iter(lambda: text.read(77_777), b""))
        assert b"".join(pieces) == TEXT
        assert opening.size_of(str(path)) == path.stat().st_size < len(TEXT)

    def test_empty(self, tmp_path: Path, ending: str) -> None:
        for content in (b"", packed(ending, b"")):
            (tmp_path / f"a{ending}").write_bytes(content)
            with opening.open(str(tmp_path / f"a{ending}")) as text:
                assert text.read() == b""

    def test_cut_off(self, tmp_path: Path, ending: str) -> None:
        whole = packed(ending, TEXT)
        for size in (3, 5, 100, len(whole) // 2, len(whole) - 1):
            (tmp_path / f"a{ending}").write_bytes(whole[:size])
            with opening.open(str(tmp_path / f"a{ending}")) as text:
                with pytest.raises(UsageError, match=f"a{ending} is cut off in the middle"):
                    text.read()

    def test_damaged(self, tmp_path: Path, ending: str) -> None:
        whole = packed(ending, TEXT)
        for content in (TEXT, whole[:5000] + bytes(100) + whole[5100:], whole + b"rest that is none"):
            (tmp_path / f"a{ending}").write_bytes(content)
            with opening.open(str(tmp_path / f"a{ending}")) as text:
                with pytest.raises(UsageError, match=f"a{ending} is (damaged|cut off)"):
                    text.read()

    def test_closing_closes_the_file(self, tmp_path: Path, ending: str) -> None:
        (tmp_path / f"a{ending}").write_bytes(packed(ending, TEXT))
        before = len(os.listdir("/proc/self/fd"))
        text = opening.open(str(tmp_path / f"a{ending}"))
        text.read(10)
        text.close()
        assert len(os.listdir("/proc/self/fd")) == before


def test_zeros_after_a_gzip_member_are_no_text(tmp_path: Path) -> None:
    (tmp_path / "a.gz").write_bytes(gzip.compress(b"text") + bytes(100_000))
    with opening.open(str(tmp_path / "a.gz")) as text:
        assert text.read() == b"text"


@settings(max_examples=30, deadline=None)
@given(parts=st.lists(st.binary(max_size=300), max_size=4), ending=st.sampled_from([".gz", ".zst"]), data=st.data())
def test_a_packed_file_is_whole_or_refused(
    tmp_path_factory: pytest.TempPathFactory, parts: list[bytes], ending: str, data: st.DataObject
) -> None:
    path = tmp_path_factory.getbasetemp() / f"any{ending}"
    whole = b"".join(packed(ending, part) for part in parts)
    size = data.draw(st.integers(0, len(whole)))
    path.write_bytes(whole[:size])
    with opening.open(str(path)) as text:
        try:
            found = text.read()
        except UsageError:
            assert size < len(whole)
        else:
            sizes = [0]
            for part in parts:
                sizes.append(sizes[-1] + len(packed(ending, part)))
            assert size in sizes
            assert found == b"".join(parts[: sizes.index(size)])


@pytest.mark.parametrize(("path", "package"), [("a.zst", "zstandard"), ("memory://a", "fsspec")])
def test_packages_that_are_missing_are_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, path: str, package: str
) -> None:
    (tmp_path / "a.zst").write_bytes(zstandard.compress(b"x"))
    monkeypatch.chdir(tmp_path)
    for module in [name for name in sys.modules if name.split(".")[0] == package]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(UsageError, match=rf"{path} need the package {package}: pip install 'torch-fleet\[data\]'"):
        opening.open(path)
