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

from modelled.checker import Checked, check
from modelled.sizes import LARGE, MUTATIONS, SMALL
from modelled.state import Size
from modelled.system import Job


def main() -> int:
    broken = {name: size._replace(broken=name) for name, (size, _) in MUTATIONS.items()}
    sizes = {**SMALL, **LARGE}
    wanted = {name: {**sizes, **broken}[name] for name in sys.argv[1:]} or sizes
    num_wrong = 0
    with ProcessPoolExecutor(min(len(wanted), len(os.sched_getaffinity(0)))) as pool:
        futures = {name: pool.submit(_timed, size) for name, size in wanted.items()}
        for name, future in futures.items():
            found, took_s = future.result()
            num_wrong += found.problem is not None
            print(f"{name}: {found} ({took_s:.0f} s)", flush=True)
    return 1 if num_wrong else 0


def _timed(size: Size) -> tuple[Checked, float]:
    began = time.monotonic()
    return check(Job(size)), time.monotonic() - began


if __name__ == "__main__":
    sys.exit(main())
