"""Runs cases in a collective job: `collective_job.py OUT MODULE,... CASE...`; each worker writes what it got to OUT."""

from __future__ import annotations

import importlib
import json
import os
import sys
from pathlib import Path
from typing import Any

import torch

import fleet
from support.jobs import fleetrun

LIMIT_S = 240.0


def run_cases(
    modules: str, cases: list[str], num_workers: int, folder: Path, where: tuple[str, str] = ("--device", "cpu")
) -> dict[str, list[Any]]:
    """What each worker got from each case: its value, or `{"error": class, "says": message}`.

    A case is a function of one of the `modules`, a comma list.
    """
    here = Path(__file__)
    path = [
        str(here.parents[2]),
        str(here.parents[3] / "compat" / "tests"),
        *filter(None, [os.environ.get("PYTHONPATH")]),
    ]
    result = fleetrun(
        *("--nproc_per_node", num_workers, *where, "--quiet", here, folder, modules, *cases),
        cwd=folder,
        environ={"PYTHONPATH": os.pathsep.join(path), "OMP_NUM_THREADS": "1"},
        limit_s=LIMIT_S,
        warm="cpu" in where,
    )
    assert result.code == 0, result.err
    workers = [json.loads((folder / f"worker{index}.json").read_text()) for index in range(num_workers)]
    return {case: [worker[case] for worker in workers] for case in cases}


def main(out: str, modules: str, *cases: str) -> None:
    torch.set_num_threads(1)
    fleet.init(is_collective=True)
    homes = [importlib.import_module(module) for module in modules.split(",")]
    functions = {name: value for home in homes for name, value in vars(home).items()}
    got: dict[str, Any] = {}
    for case in cases:
        try:
            got[case] = functions[case]()
        except Exception as error:
            got[case] = {"error": type(error).__name__, "says": str(error)}
    Path(out, f"worker{fleet.worker_index()}.json").write_text(json.dumps(got))


if __name__ == "__main__":
    main(*sys.argv[1:])
