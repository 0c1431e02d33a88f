"""fleet_programs.InMemoryDataset alone: loading, shuffling, lines of one id, and what comes too early."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fleet.errors import NotReadyError, UsageError, UsageTypeError
from fleet_programs import InMemoryDataset
from fleet_programs.datasets import multislot
from support.data.slots import USE_VAR, Var, numbers, write

pytestmark = pytest.mark.timeout(300)


def dataset(files: list[str], **settings: Any) -> InMemoryDataset:
    made = InMemoryDataset()
    made.init(**{"batch_size": 4, "use_var": USE_VAR, **settings})
    made.set_filelist(files)
    return made


def order(made: InMemoryDataset) -> list[int]:
    return [number for batch in made for number in numbers(batch)]


@pytest.mark.parametrize("threads", [1, 3])
def test_records_are_in_the_order_of_the_files(threads: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(multislot, "CHUNK_BYTES", 64)
    made = dataset(write(tmp_path, [5, 0, 7, 1]), thread_num=threads)
    made.load_into_memory()
    assert [numbers(batch) for batch in made] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11], [12]]
    assert [[numbers(batch)[0] for batch in made.batches(worker, 3)] for worker in range(3)] == [[0, 12], [4], [8]]
    assert made.get_memory_data_size() == 13
    assert made.get_shuffle_data_size() == 0


def test_a_batch_may_be_changed(tmp_path: Path) -> None:
    made = dataset(write(tmp_path, [6]))
    made.load_into_memory()
    for _ in range(2):
        for batch in made:
            assert numbers(batch)
            for column in (batch["dense"], *batch["ids"], batch["label"]):
                column[:] = -1
        assert order(made) == list(range(6))


def test_a_bar_is_drawn_where_somebody_looks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    made = dataset(write(tmp_path, [5, 3]))
    made.load_into_memory()
    assert capsys.readouterr().out == ""
    monkeypatch.setenv("FLEET_TERMINAL_WIDTH", "80")
    made.load_into_memory()
    shown = capsys.readouterr().out
    assert "load" in shown
    assert "2/2" in shown
    assert "records 8" in shown


def test_shuffles_keep_every_record_and_can_be_repeated(tmp_path: Path) -> None:
    files = write(tmp_path, [20, 17])
    orders = []
    for _ in range(2):
        made = dataset(files)
        made.load_into_memory(is_shuffle=True)
        found = [order(made)]
        for shuffle in (made.local_shuffle, made.global_shuffle):
            for seed in (None, 7, 7):
                shuffle(seed=seed)
                found.append(order(made))
        assert all(sorted(one) == list(range(37)) for one in found)
        assert found[2] == found[3]
        assert len(set(map(tuple, found))) == 4  # alone, a global shuffle is a local one
        assert made.get_shuffle_data_size() == 37
        orders.append(found)
    assert orders[0] == orders[1]


def test_a_preload_reads_in_the_background(tmp_path: Path) -> None:
    made = dataset(write(tmp_path, [3, 4]))
    made.preload_into_memory(thread_num=2)
    for call in (made.load_into_memory, made.preload_into_memory, made.release_memory, made.local_shuffle):
        with pytest.raises(NotReadyError, match="call wait_preload_done"):
            call()
    made.wait_preload_done()
    assert order(made) == list(range(7))
    made.release_memory()
    with pytest.raises(NotReadyError, match="there are no records in memory; call load_into_memory"):
        iter(made)
    with pytest.raises(NotReadyError, match="nothing is being preloaded"):
        made.wait_preload_done()
    made.set_pipe_command("exit 3")
    made.preload_into_memory()
    with pytest.raises(UsageError, match="failed on .* with exit code 3"):
        made.wait_preload_done()


def test_a_worker_without_files_has_no_records() -> None:
    made = dataset([])
    made.load_into_memory()
    made.local_shuffle()
    made.global_shuffle()
    assert list(made) == []


def test_lines_of_one_id_become_one_record(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    lines = [f"1 id-{n % 5} 1 text 1 {n} 2 {n} {n}\n" for n in range(10)] + ["1 alone 1 text 1 77 1 77\n"]
    (tmp_path / "a").write_text("".join(lines))
    use_var = [Var("first", "int64", (-1, 1)), Var("all", "int64", (-1, 1), 1)]
    made = dataset([str(tmp_path / "a")], use_var=use_var, batch_size=100)
    made.set_merge_by_lineid(2)
    made.set_parse_content(True)
    made.load_into_memory()
    assert made.get_memory_data_size() == 11
    made.global_shuffle()
    assert "left out 1 of 11 lines: an id needs 2 lines to be merged" in caplog.text
    (batch,) = made
    first, (values, offsets) = batch["first"], batch["all"]
    assert isinstance(first, np.ndarray)
    assert sorted(first[:, 0].tolist()) == list(range(5))
    assert offsets.tolist() == [0, 4, 8, 12, 16, 20]
    assert values.reshape(5, 4).tolist() == [[n, n, n + 5, n + 5] for n in first[:, 0].tolist()]

    made = dataset([str(tmp_path / "a")], use_var=use_var, pipe_command="cut -d' ' -f5-")
    made.load_into_memory()
    made.set_merge_by_lineid()
    with pytest.raises(NotReadyError, match="call set_merge_by_lineid.. before load_into_memory"):
        made.global_shuffle()


def test_slots_can_be_shuffled_by_themselves(tmp_path: Path) -> None:
    made = dataset(write(tmp_path, [30]), batch_size=30)
    made.load_into_memory()
    with pytest.raises(UsageError, match="call set_fea_eval"):
        made.slots_shuffle(["label"])
    made.set_fea_eval(record_candidate_size=3)
    with pytest.raises(UsageError, match="there is no slot 'labels' to shuffle; use_var has dense, ids, label"):
        made.slots_shuffle(["labels"])
    with pytest.raises(UsageTypeError, match="slots must be a list of names"):
        made.slots_shuffle("label")
    made.slots_shuffle(["dense", "ids"])
    (batch,) = made
    dense, ids, label = batch["dense"], batch["ids"], batch["label"]
    assert isinstance(label, np.ndarray)
    assert isinstance(dense, np.ndarray)
    assert label[:, 0].tolist() == list(range(30))
    assert len(set(dense[:, 0].tolist())) == 3
    assert len(set(ids[0][:, 0].tolist())) == 3
    made.local_shuffle()
    (again,) = made
    shuffled = again["label"]
    assert isinstance(shuffled, np.ndarray)
    assert again["dense"][shuffled[:, 0].argsort()].tolist() == dense.tolist()
    made.slots_shuffle([])
    assert sorted(order(made)) == list(range(30))
