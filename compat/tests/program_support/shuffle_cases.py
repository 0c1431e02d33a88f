"""The cases of static/datasets/test_global_shuffle.py: what the workers of one job have before and after."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

import fleet
from fleet_programs import InMemoryDataset
from support.data.slots import USE_VAR, Var, numbers

FILES = [f"part-{place}.txt" for place in range(3)]


def loaded(files: list[str], use_var: Any = USE_VAR) -> InMemoryDataset:
    made = InMemoryDataset()
    made.init(batch_size=16, use_var=use_var)
    made.set_filelist(files)
    made.load_into_memory()
    return made


def order(made: InMemoryDataset) -> list[int]:
    return [number for batch in made for number in numbers(batch)]


def every_record_once() -> Any:
    """Three times over: by default, with a seed in rounds of five, and with that seed from the beginning."""
    made = loaded(fleet.util.get_file_shard(FILES))
    before = order(made)
    made.global_shuffle(fleet)  # a module is a job, too
    sizes = [made.get_memory_data_size(), made.get_memory_data_size(fleet), made.get_shuffle_data_size(fleet)]
    orders = [order(made)]
    for _ in range(2):
        made = loaded(fleet.util.get_file_shard(FILES))
        made.set_fleet_send_batch_size(5)
        made.set_fleet_send_sleep_seconds(0.001)
        made.global_shuffle(thread_num=2, seed=3)
        orders.append(order(made))
    return {"before": before, "sizes": sizes, "orders": orders}


def a_worker_with_nothing() -> Any:
    made = loaded(FILES if fleet.worker_index() == 1 else [])
    made.global_shuffle()
    return order(made)


def lines_of_one_id_meet() -> Any:
    """Each id has a line on either worker."""
    path = Path(f"ids-{fleet.worker_index()}.txt")
    path.write_text("".join(f"1 id-{number} 1 {number}\n" for number in range(40)))
    made = InMemoryDataset()
    made.init(batch_size=100, use_var=[Var("ids", "int64", (-1, 1), 1)])
    made.set_merge_by_lineid(2)
    made.set_filelist([path])
    made.load_into_memory()
    made.global_shuffle()
    values = np.concatenate([batch["ids"][0].reshape(-1, 2) for batch in made])
    return values.tolist()


def different_slots() -> Any:
    use_var = USE_VAR if fleet.worker_index() == 0 else [*USE_VAR[:2], Var("labels", "int64", (-1, 1))]
    loaded(FILES, use_var).global_shuffle()
