"""`make model`: goes through every state of all sizes, and prints how many there are; ends with 1 if one is wrong.

PYTHONPATH=tests python -m modelled                      all of them
PYTHONPATH=tests python -m modelled "pushes, two deaths" some
PYTHONPATH=tests python -m modelled "no ledger"          what is done wrong on purpose, and where that leads
"""

from __future__ import annotations

import os
import sys
import time
from concurrent.futures import ProcessPoolExecutor

from modelled import walks
from modelled.checker import Checked, check
from modelled.sizes import LARGE, MUTATIONS, SMALL
from modelled.state import Size
from modelled.system import Job

CODE = "code"


def main() -> int:
    sizes: dict[str, Size] = {**SMALL, **LARGE}
    broken = {name: size._replace(broken=name) for name, (size, _) in MUTATIONS.items()}
    names = [name for name in sys.argv[1:] if name != CODE] if sys.argv[1:] else list(sizes)
    num_wrong = 0
    with ProcessPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        checked = {name: pool.submit(_checked, {**sizes, **broken}[name]) for name in names}
        for name, future in checked.items():
            found, took_s = future.result()
            num_wrong += found.problem is not None
            print(f"{name}: {found} ({took_s:.0f} s)", flush=True)
        if CODE in sys.argv or not sys.argv[1:]:
            futures = [pool.submit(walks.walk, size, seed) for size in walks.WALKED for seed in range(walks.ALL_WALKS)]
            print(f"code beside the model: {sum(one.result() for one in futures)} actions that seeds draw", flush=True)
            more = [pool.submit(walks.sequences, size, length) for size, _, length in walks.SHORT]
            print(f"code beside the model: {sum(one.result() for one in more)} short sequences", flush=True)
    return 1 if num_wrong else 0


def _checked(size: Size) -> tuple[Checked, float]:
    began = time.monotonic()
    return check(Job(size, is_reduced=not size.broken)), time.monotonic() - began


if __name__ == "__main__":
    sys.exit(main())
