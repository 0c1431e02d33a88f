"""How many threads torch computes on in this process, and how they wait for each other.

torch's threads are those of OpenMP, GCC's libgomp in its wheels. A thread that waits spins for milliseconds before it
sleeps, and on cores that others use too it spins on the core of the very thread that it waits for. Where torch is not
imported yet, variables of the environment settle both. libgomp reads them when it is loaded, but it also documents
that threads hardly spin once it manages more of them than there are CPUs; hence `IdleTeam`.
"""

import logging
import os
import sys
import threading
from pathlib import Path

from fleet import env
from fleet.cores import num_cores, thread_variables, user_chose_waiting

_log = logging.getLogger(__name__)

_MOST_IDLE = 256
"""The most threads that are started only to make others sleep while they wait."""


class Threads:
    """What was chosen for this process. What the user has set, by variables or by torch's calls, stays."""

    def __init__(self) -> None:
        self._is_chosen = False
        self._idle: list[IdleTeam] = []

    def choose(self) -> None:
        """Settle the number of torch's threads and how they wait, once, and log it in one line."""
        if self._is_chosen:
            return
        self._is_chosen = True
        cores = num_cores()
        if "torch" not in sys.modules:
            for name, value in thread_variables(cores).items():
                env.prefer(name, value)
            return
        number = _limit_torch(cores)
        if number > 1 and len(os.sched_getaffinity(0)) <= _MOST_IDLE and not user_chose_waiting():
            self._idle = [IdleTeam(path) for path in _openmp_libraries()]
        _log.info(
            "torch computes on %s of the %d cores that this process may use%s",
            "1 thread" if number == 1 else f"{number} threads",
            cores,
            ", which sleep while they wait" if self._idle else "",
        )

    def close(self) -> None:
        """Let go of what `choose` has started; idempotent."""
        for team in self._idle:
            team.close()
        self._idle, self._is_chosen = [], False


def _limit_torch(cores: int) -> int:
    """Keep torch from more threads than cores, if it has taken its number from the CPUs of the machine; returns it."""
    import torch

    number, cpus = torch.get_num_threads(), len(os.sched_getaffinity(0))
    is_torchs_own = number in (cpus, cpus // 2)  # half as many where each core shows as two CPUs
    if number > cores and is_torchs_own and env.OMP_NUM_THREADS.text() is None:
        torch.set_num_threads(cores)
    return torch.get_num_threads()


def _openmp_libraries() -> list[str]:
    """Where the copies of libgomp lie that this process has loaded: torch's, and those that others bring."""
    lines = [line.split(maxsplit=5) for line in Path("/proc/self/maps").read_text().splitlines()]
    paths = dict.fromkeys(line[5] for line in lines if len(line) == 6 and "libgomp" in line[5])
    return [path for path in paths if os.path.isfile(path)]


class IdleTeam:
    """Threads of one libgomp that do nothing but be there: with them it manages more than there are CPUs.

    They sleep, and belong to a thread that sleeps as well. Starting them takes less than a millisecond.
    """

    def __init__(self, path: str) -> None:
        import ctypes  # which only processes that have torch by now need

        self._c_uint = ctypes.c_uint
        self._library = ctypes.CDLL(path, os.RTLD_NOLOAD | os.RTLD_NOW)
        self._is_ready, self._may_end = threading.Event(), threading.Event()
        self._owner = threading.Thread(target=self._own, name="fleet-idle-team", daemon=True)
        self._owner.start()
        self._is_ready.wait()

    def _own(self) -> None:
        # These but for the first, and two that compute, are one thread more than there are CPUs.
        number = max(2, self._library.omp_get_num_procs())
        nothing = self._library.omp_get_thread_num  # a function in C: Python must not run on these threads
        self._library.GOMP_parallel(nothing, None, self._c_uint(number), self._c_uint(0))
        self._is_ready.set()
        self._may_end.wait()

    def close(self) -> None:
        """End the threads."""
        self._may_end.set()
        self._owner.join()
