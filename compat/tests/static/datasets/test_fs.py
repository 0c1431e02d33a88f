"""Files of this machine and of HDFS: the same calls, the second through a command, here one that works on a folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fleet.errors import DeadlineError, UsageError
from fleet_programs.fs import FileSystemError, HDFSClient, LocalFS

HADOOP = """\
#!/bin/sh
[ "$1" = fs ] && [ "$2" = -Dfs.default.name=here ] || exit 9
shift 2
case "$1" in
  -test) test "$2" "$3" ;;
  -ls) echo "Found some"
       for f in "$2"/*; do k=-; [ -d "$f" ] && k=d; echo "${k}rw-r--r-- 1 me us 0 2020-01-01 10:00 $f"; done ;;
  -put|-get) cp -r "$2" "$3" ;;
  -mkdir) mkdir -p "$3" ;;
  -touchz) : > "$2" ;;
  -mv) mv "$2" "$3" ;;
  -rm) rm -r "$3" ;;
  -cat) cat "$2" ;;
  *) echo "bad $1" >&2; exit 3 ;;
esac
"""


@pytest.fixture
def hadoop(tmp_path: Path) -> Path:
    command = tmp_path / "hadoop" / "bin" / "hadoop"
    command.parent.mkdir(parents=True)
    command.write_text(HADOOP)
    command.chmod(0o755)
    return tmp_path / "hadoop"


@pytest.mark.parametrize("kind", ["local", "hdfs"])
def test_both_do_the_same(kind: str, hadoop: Path, tmp_path: Path) -> None:
    fs: Any = LocalFS() if kind == "local" else HDFSClient(hadoop, {"fs.default.name": "here"})
    assert fs.need_upload_download() is (kind == "hdfs")
    folder = str(tmp_path / "made" / "folder")
    assert fs.ls_dir(folder) == ([], [])
    fs.mkdirs(folder)
    fs.touch(f"{folder}/a b")
    with pytest.raises(FileSystemError, match="is there already; give exist_ok=True"):
        fs.touch(f"{folder}/a b", exist_ok=False)
    fs.mkdirs(f"{folder}/inner")
    assert fs.ls_dir(folder) == (["inner"], ["a b"])
    assert fs.list_dirs(folder) == ["inner"]
    assert (fs.is_dir(folder), fs.is_file(folder), fs.is_file(f"{folder}/a b")) == (True, False, True)
    fs.touch(f"{folder}/c")
    with pytest.raises(FileSystemError, match="is there already; give overwrite=True"):
        fs.mv(f"{folder}/a b", f"{folder}/c")
    fs.mv(f"{folder}/a b", f"{folder}/c", overwrite=True)
    with pytest.raises(FileSystemError, match="a b is not there"):
        fs.mv(f"{folder}/a b", f"{folder}/d")
    Path(folder, "c").write_text("text\n")
    assert fs.cat(f"{folder}/c") == "text\n"
    fs.delete(folder)
    fs.delete(folder)
    assert not fs.is_exist(folder)


def test_copies_and_failures_of_hdfs(hadoop: Path, tmp_path: Path) -> None:
    fs = HDFSClient(str(hadoop), {"fs.default.name": "here"}, sleep_inter=0)
    (tmp_path / "own").write_text("x")
    fs.upload(tmp_path / "own", str(tmp_path / "theirs"))
    fs.download(str(tmp_path / "theirs"), tmp_path / "back")
    assert (tmp_path / "back").read_text() == "x"
    with pytest.raises(FileSystemError, match="no is not there"):
        fs.upload(tmp_path / "no", "x")
    with pytest.raises(FileSystemError, match="no is not there"):
        fs.download(str(tmp_path / "no"), "x")
    with pytest.raises(FileSystemError, match="hadoop fs -odd failed with code 3: bad -odd"):
        fs._run("-odd")
    (hadoop / "bin" / "hadoop").write_text("#!/bin/sh\nexec sleep 9\n")
    with pytest.raises(DeadlineError, match=r"took longer than 0.05 s; give a larger time_out"):
        HDFSClient(hadoop, time_out=50).is_exist("x")


def test_arguments(hadoop: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="HDFSClient: there is no .*bin/hadoop; give Hadoop's folder"):
        HDFSClient(tmp_path / "none")
    with pytest.raises(UsageError, match="time_out must be > 0"):
        HDFSClient(hadoop, time_out=0)
    (tmp_path / "file").touch()
    with pytest.raises(FileSystemError, match="is a file; delete it"):
        LocalFS().mkdirs(tmp_path / "file")
    LocalFS().rename(tmp_path / "file", tmp_path / "other")
    assert LocalFS().is_exist(tmp_path / "other")
