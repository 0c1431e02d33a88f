"""How many threads one call of the native core uses in this process."""

from fleet import _native, env
from fleet.cores import num_cores


def use_native_threads() -> None:
    """Use FLEET_NATIVE_THREADS threads, else OMP_NUM_THREADS, which launchers set, else one for each core.

    The native core alone would count the CPUs of this process and not know the quota of its container. Called where a
    process becomes a worker or a server, since importing does nothing.
    """
    asked = env.FLEET_NATIVE_THREADS.get() or env.OMP_NUM_THREADS.get()
    _native.set_threads(min(asked, MOST) if asked else min(_native.num_threads(), num_cores()))


def use_step_threads() -> None:
    """Use FLEET_STEP_THREADS threads, if set, in a server whose workers wait while it applies a step."""
    if asked := env.FLEET_STEP_THREADS.get():
        _native.set_threads(min(asked, MOST))


MOST = 256
"""More threads would only wait for each other."""
