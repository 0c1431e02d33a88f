"""Checkpoints under fire: killed at every step, killed at random, a full disk, many writers."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from fleet.checkpoint import (
    BlockForm,
    ChainLink,
    Manifest,
    TableLoad,
    begin,
    check_files,
    commit,
    export_table,
    find,
    load_dense,
    pieces_from_text,
    read_manifest,
    write_piece,
)
from fleet.errors import CheckpointError
from support.fake_table import FakeTable, random_rows

# One save of version N into FOLDER: a table of 300 rows on two servers, of which every value is N, and a dense block.
# `dies` has it die before a given step; steps are the calls that change something on the disk.
SAVER = """
import os, sys
import numpy as np
from fleet import checkpoint
from support.fake_table import FakeTable, random_rows

def save(folder, version):
    writing = checkpoint.begin(folder)
    pieces = []
    for server in range(2):
        table = FakeTable()
        table.import_(random_rows(300), server, 2)
        table.rows["values"][:] = version
        pieces += checkpoint.save_table(
            table, "ads", writing, server, 2, dtype="float32", rule="adam", piece_bytes=4000)
    block = checkpoint.BlockForm("w", 0, 50, 50, "sgd")
    values = np.full(50, version, np.float32)
    pieces += checkpoint.save_dense(
        writing, 0, 2, [checkpoint.BlockData(block, values, (), np.zeros(0, np.float32))])
    checkpoint.commit(writing, folder, checkpoint.Manifest(version, 2, tuple(pieces)))

def die_before(step):
    left = [step]
    def counted(call):
        def wrapper(*arguments, **options):
            left[0] -= 1
            if left[0] == 0:
                os._exit(9)
            return call(*arguments, **options)
        return wrapper
    for name in ("rename", "fsync", "mkdir", "rmdir", "unlink"):
        setattr(os, name, counted(getattr(os, name)))

def dies(folder, version, step):
    # A fork for each save: many of them, and nothing is imported twice.
    if not (child := os.fork()):
        die_before(step)
        save(folder, version)
        os._exit(0)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert status in (0, 9), status
    return status == 9
"""


def check(folder: Path) -> int:
    """The version found, after reading every byte of it."""
    where = find(folder)
    manifest = read_manifest(where)
    check_files(where, manifest, reread=True)
    table = FakeTable()
    assert TableLoad(table, [ChainLink(where, manifest)], "ads", 0, 1, dtype="float32", rule="adam").load() == 300
    assert (table.rows["values"] == manifest.version).all()
    (block,) = load_dense(manifest, where, [BlockForm("w", 0, 50, 50, "sgd")])
    assert (block.values == manifest.version).all()
    return manifest.version


def run(program: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    tests = Path(__file__).parents[2]
    command = [sys.executable, "-c", program, *map(str, arguments)]
    return subprocess.run(command, cwd=tests, capture_output=True, text=True, timeout=100, check=False)


def test_death_at_every_step_leaves_the_old_or_the_new(tmp_path: Path) -> None:
    program = SAVER + (
        "for step in range(1, 1000):\n"
        "    folder = f'{sys.argv[1]}/{step}'\n"
        "    save(folder, 1)\n"
        "    if not dies(folder, 2, step):\n"
        "        break\n"
        "print(step)\n"
    )
    ended = run(program, tmp_path)
    assert ended.returncode == 0, ended.stderr
    folders = [tmp_path / str(step + 1) for step in range(int(ended.stdout))]
    assert len(folders) > 20
    versions = [check(folder) for folder in folders]
    assert versions == sorted(versions), "once the new one is found, it stays found"
    assert set(versions) == {1, 2}
    for folder in folders[3], folders[-3]:
        found = check(folder)
        assert list(tmp_path.glob(f".{folder.name}.*")), "the death left something"
        writing = begin(folder)
        assert check(folder) == found
        assert list(tmp_path.glob(f".{folder.name}.*")) == [writing], "and the next save cleared it away"


def test_death_between_the_renames_and_again_in_the_save_that_mends_it(tmp_path: Path) -> None:
    program = SAVER + (
        "def gap():\n"
        "    for step in range(1, 1000):\n"
        "        save(f'{sys.argv[1]}/x{step}', 1)\n"
        "        dies(f'{sys.argv[1]}/x{step}', 2, step)\n"
        "        if not os.path.exists(f'{sys.argv[1]}/x{step}'):\n"
        "            return step\n"
        "first = gap()\n"
        "for second in range(1, 1000):\n"
        "    folder = f'{sys.argv[1]}/{second}'\n"
        "    save(folder, 1)\n"
        "    assert dies(folder, 2, first) and not os.path.exists(folder)\n"
        "    if not dies(folder, 3, second):\n"
        "        break\n"
        "print(second)\n"
    )
    ended = run(program, tmp_path)
    assert ended.returncode == 0, ended.stderr
    versions = [check(tmp_path / str(second)) for second in range(1, int(ended.stdout) + 1)]
    assert versions == sorted(versions)
    assert set(versions) == {2, 3}, "the first version was replaced as soon as the second was complete"


def test_kill_at_random_moments(tmp_path: Path) -> None:
    folder = tmp_path / "c"
    program = SAVER + (
        "version = int(sys.argv[2])\n"
        "print(version, flush=True)\n"
        "while True:\n"
        "    version += 1\n"
        "    save(sys.argv[1], version)\n"
        "    print(version, flush=True)\n"
    )
    rng = random.Random(1)
    last = 0
    for _ in range(8):
        with subprocess.Popen(
            [sys.executable, "-c", program, folder, str(last)],
            cwd=Path(__file__).parents[2], stdout=subprocess.PIPE, text=True,
        ) as saver:  # fmt: skip
            assert saver.stdout is not None
            saver.stdout.readline()
            last = int(saver.stdout.readline())
            time.sleep(rng.uniform(0, 0.15))
            saver.send_signal(signal.SIGKILL)
            for line in saver.stdout:
                last = int(line)
        found = check(folder)
        assert found in (last, last + 1)
        last = found
    begin(folder)
    assert len(os.listdir(tmp_path)) == 2
    assert check(folder) == last


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "fleet", disk], capture_output=True, check=False)
    if mounted.returncode:
        pytest.skip("needs the right to mount")
    yield disk
    subprocess.run(["umount", disk], check=True)


def test_a_full_disk_names_the_file_and_the_need(small_disk: Path) -> None:
    writing = begin(small_disk / "c")
    small = {"a": np.zeros(100_000, np.uint8)}
    write_piece(writing / "fits", small, {})
    with pytest.raises(CheckpointError, match=r"cannot write .*/big: No space left on device; it needs 2\d+ bytes"):
        write_piece(writing / "big", {"a": np.zeros(2_000_000, np.uint8)}, {})
    assert os.listdir(writing) == ["fits"], "no partial file is left"
    table = FakeTable(width=64)
    table.import_(random_rows(8000, width=64), 0, 1)
    with pytest.raises(CheckpointError, match="No space left on device"):
        export_table(table, "ads", writing, 0, 1, dtype="float32")
    assert os.listdir(writing) == ["fits"]


def test_a_file_size_limit_is_the_same(tmp_path: Path) -> None:
    program = (
        "import resource, sys, numpy as np\n"
        "from pathlib import Path\n"
        "from fleet import checkpoint\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))\n"
        "try:\n"
        "    checkpoint.write_piece(Path(sys.argv[1]), {'a': np.zeros(10**6, np.uint8)}, {})\n"
        "except OSError as error:\n"
        "    print(error)\n"
    )
    ended = run(program, tmp_path / "p")
    assert "File too large; it needs 1000" in ended.stdout, ended.stderr
    assert not os.listdir(tmp_path)


def test_servers_write_from_processes_of_their_own(tmp_path: Path) -> None:
    server = (
        "import sys\n"
        "from pathlib import Path\n"
        "from fleet import checkpoint\n"
        "from support.fake_table import FakeTable, random_rows\n"
        "number = int(sys.argv[2])\n"
        "table = FakeTable()\n"
        "table.import_(random_rows(2000), number, 3)\n"
        "pieces = checkpoint.save_table(\n"
        "    table, 'ads', Path(sys.argv[1]), number, 3, dtype='float32', rule='adam', piece_bytes=9000)\n"
        "print(checkpoint.pieces_to_text(pieces))\n"
    )
    writing = begin(tmp_path / "c")
    servers = [
        subprocess.Popen(
            [sys.executable, "-c", server, writing, str(number)],
            cwd=Path(__file__).parents[2], stdout=subprocess.PIPE, text=True,
        )
        for number in range(3)
    ]  # fmt: skip
    try:
        replies = [process.communicate(timeout=100)[0] for process in servers]
    finally:
        for process in servers:
            process.kill()
            process.communicate()
    pieces = [piece for number, reply in enumerate(replies) for piece in pieces_from_text(reply, f"server {number}")]
    commit(writing, tmp_path / "c", Manifest(1, 3, tuple(pieces)), reread=True)
    manifest = read_manifest(find(tmp_path / "c"))
    table = FakeTable()
    assert (
        TableLoad(table, [ChainLink(tmp_path / "c", manifest)], "ads", 0, 1, dtype="float32", rule="adam").load()
        == 2000
    )
