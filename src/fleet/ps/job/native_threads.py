"""On how many threads one call of the native core works in this process."""

from __future__ import annotations

from fleet import _native, env
from fleet.cores import num_cores


def use_native_threads() -> None:
    """Do as FLEET_NATIVE_THREADS says, or as OMP_NUM_THREADS does, which launchers set; else as the core thinks best,
    which knows the CPUs of this process and not the quota of its container.

    Called where a process becomes a worker or a server, for importing does nothing.
    """
    asked = env.FLEET_NATIVE_THREADS.get() or env.OMP_NUM_THREADS.get()
    _native.set_threads(min(asked, MOST) if asked else min(_native.num_threads(), num_cores()))


def use_step_threads() -> None:
    """Do as FLEET_STEP_THREADS says, in a server whose workers wait while it applies a step."""
    if asked := env.FLEET_STEP_THREADS.get():
        _native.set_threads(min(asked, MOST))


MOST = 256
"""More would only wait for each other."""
