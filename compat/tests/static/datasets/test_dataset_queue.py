"""fleet_programs.QueueDataset: batches from files and commands, errors with their place, and nothing left behind."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fleet.data import Ragged
from fleet.errors import DeadlineError, NotReadyError, NotSupportedError, UsageError
from fleet_programs import QueueDataset
from fleet_programs.datasets import multislot
from support.data.slots import USE_VAR, Var, numbers, write

pytestmark = pytest.mark.timeout(300)


def dataset(files: list[str], **settings: Any) -> QueueDataset:
    made = QueueDataset()
    made.init(**{"batch_size": 4, "use_var": USE_VAR, **settings})
    made.set_filelist(files)
    return made


@pytest.mark.parametrize("chunk", [32, 64, 1 << 20])
@pytest.mark.parametrize("command", ["cat", "cat | cat"])
def test_batches_of_one_thread_are_in_order(
    chunk: int, command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(multislot, "CHUNK_BYTES", chunk)
    batches = list(dataset(write(tmp_path, [5, 0, 1, 13]), pipe_command=command))
    assert [numbers(batch) for batch in batches] == [[*range(i, min(i + 4, 19))] for i in range(0, 19, 4)]
    first = batches[0]["dense"]
    assert isinstance(first, np.ndarray)
    assert first.dtype == np.float32


def test_several_threads_give_each_record_once(tmp_path: Path) -> None:
    sizes = [5, 1, 7, 3, 2, 9]
    made = dataset(write(tmp_path, sizes), thread_num=3)
    for _ in range(2):
        batches = [numbers(batch) for batch in made]
        assert sorted(number for batch in batches for number in batch) == list(range(27))
        assert sorted(map(len, batches)) == [3, *[4] * 6]


def test_parts_for_several_consumers_have_each_record_once(tmp_path: Path) -> None:
    made = dataset(write(tmp_path, [5, 1, 7]), thread_num=2)
    parts = [[n for batch in made.batches(worker=worker) for n in numbers(batch)] for worker in range(2)]
    assert sorted(parts[0] + parts[1]) == list(range(13))
    assert all(parts)
    assert [list(made.batches(worker, num_workers=5)) for worker in (3, 4)] == [[], []]
    made.set_queue_num(3)
    assert [n for batch in made.batches(worker=2) for n in numbers(batch)] == list(range(6, 13))
    for wrong in ({"worker": 3}, {"worker": -1}, {"num_workers": 2}, {"worker": 0, "num_workers": 0}):
        with pytest.raises(UsageError):
            made.batches(**wrong)


def test_shapes_and_types_are_those_of_the_variables(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("4 1 2 3 4 1 5 2 0.5 0.25\n4 5 6 7 8 1 18446744073709551615 1 1e-3\n")
    use_var = [Var("m", "float64", (-1, 2, 2)), Var("n", "int64", (-1,)), Var("r", "float32", (-1, 1), 1)]
    (batch,) = dataset([str(tmp_path / "a")], use_var=use_var)
    m, n, r = batch["m"], batch["n"], batch["r"]
    assert isinstance(m, np.ndarray)
    assert isinstance(n, np.ndarray)
    assert isinstance(r, Ragged)
    assert (str(m.dtype), m.shape, n.tolist()) == ("float64", (2, 2, 2), [5, -1])
    assert (str(r.values.dtype), r.values.shape, r.offsets.tolist()) == ("float32", (3, 1), [0, 2, 3])


GENERATOR = """
from fleet_programs import MultiSlotDataGenerator


class Doubled(MultiSlotDataGenerator):
    def generate_sample(self, line):
        def samples():
            number = int(line)
            yield ("dense", [number, 0.5]), ("ids", [number] * (number % 3 + 1)), ("label", [number])

        return samples


import sys

Doubled().run_from_stdin()
assert not {"torch", "numpy"} & set(sys.modules)
print("read all", file=sys.stderr)
"""


def test_a_generator_is_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "generate.py").write_text(GENERATOR)
    (tmp_path / "a").write_text("".join(f"{number}\n" for number in range(9)))
    made = dataset([str(tmp_path / "a")], pipe_command=f"{sys.executable} {tmp_path}/generate.py")
    assert [numbers(batch) for batch in made] == [[0, 1, 2, 3], [4, 5, 6, 7], [8]]
    assert "read all" in capsys.readouterr().err


def test_bad_text_is_named_with_file_and_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(multislot, "CHUNK_BYTES", 32)
    (path,) = write(tmp_path, [5])
    with open(path, "a") as file:
        file.write("\n2 1 2 0 1 1\n")
    with pytest.raises(UsageError, match=f"^slot 'ids' has no values in {path}:7; pad it$"):
        list(dataset([path]))
    monkeypatch.setattr(multislot, "LONGEST_LINE_BYTES", 64)
    Path(path).write_text("2 1 2 " + "1" * 100)
    with pytest.raises(UsageError, match=f"the line is longer than 64 bytes in {path}:1; write one record a line"):
        list(dataset([path]))


@pytest.mark.parametrize(
    ("command", "says"),
    [
        ("head -c 20; echo first >&2; echo 'no more' >&2; exit 3", "with exit code 3: no more$"),
        ("cat; kill -9 $$", "with signal 9: it said nothing on standard error$"),
        ("no-such-command-at-all", "with exit code 127: .*no-such-command-at-all"),
    ],
)
def test_a_command_that_fails_is_an_error(command: str, says: str, tmp_path: Path) -> None:
    (path,) = write(tmp_path, [100])
    with pytest.raises(UsageError, match=f"^pipe_command .* failed on {path} {says}"):
        list(dataset([path], pipe_command=command))


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot read .*/none: No such file or directory; set_filelist"):
        list(dataset([str(tmp_path / "none")]))
    with pytest.raises(UsageError, match="cannot read .*: it is no regular file"):
        list(dataset([str(tmp_path)]))


@pytest.mark.parametrize(
    ("command", "timeout_s", "says"),
    [
        ("sleep 100", 0.1, "wrote nothing for 0.1 s"),
        ("exec >&-; sleep 100", 1.0, "had not ended 1 s later"),  # time enough for a shell to start
    ],
)
def test_a_command_that_is_stuck_has_a_deadline(command: str, timeout_s: float, says: str, tmp_path: Path) -> None:
    with pytest.raises(DeadlineError, match=says):
        list(dataset(write(tmp_path, [1]), pipe_command=command, pipe_timeout_s=timeout_s))


@pytest.mark.parametrize("command", ["cat", "while true; do cat part-0.txt; done", "(cat; sleep 100) | cat"])
def test_a_loop_left_early_leaves_nothing_behind(command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(multislot, "CHUNK_BYTES", 64)
    monkeypatch.chdir(tmp_path)
    before = set(threading.enumerate())
    made = dataset(write(tmp_path, [50, 50, 50]), thread_num=2, pipe_command=command)
    batches = made.batches()
    assert len(list(islice(batches, 2))) == 2
    assert len(set(threading.enumerate()) - before) == 2
    del batches  # what `break` does to the iterator of a loop
    assert set(threading.enumerate()) == before  # processes: see conftest


ENDING = """
import sys
from fleet_programs import InMemoryDataset, QueueDataset
from support.data.slots import USE_VAR

queue, memory = QueueDataset(), InMemoryDataset()
for dataset, command in ((queue, "yes '2 1 0.5 1 1 1 1'"), (memory, "sleep 100")):
    dataset.init(use_var=USE_VAR, thread_num=2, pipe_command=command)
    dataset.set_filelist(sys.argv[1:])
batches = iter(queue)
next(batches)
memory.preload_into_memory()
"""


def test_a_program_may_end_in_the_middle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[4] / "tests"))
    files = write(tmp_path, [1, 1, 1])
    done = subprocess.run([sys.executable, "-c", ENDING, *files], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")


def test_what_a_queue_cannot_do_is_refused() -> None:
    made = QueueDataset()
    calls: list[Callable[[], object]] = [
        *(made.local_shuffle, made.global_shuffle),
        *(lambda: made.slots_shuffle(["a"]), lambda: made.set_fea_eval(1)),
    ]
    for call in calls:
        with pytest.raises(NotSupportedError, match="use InMemoryDataset") as caught:
            call()
        assert isinstance(caught.value, NotImplementedError)
    with pytest.raises(NotReadyError, match="call set_filelist"):
        iter(made)
    made.set_filelist([])
    with pytest.raises(NotReadyError, match="call set_use_var"):
        iter(made)
    made.set_use_var(USE_VAR)
    assert list(made) == []
