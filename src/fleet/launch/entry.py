"""Where fleetrun begins: a Ctrl-C while the rest is being imported ends the process at once.

Python turns an interrupt into an exception, and drops that exception when it falls into a callback of its imports; the
job would then start all the same. Nothing has been started yet, so the system's own way to end a process will do.
"""

from __future__ import annotations

import signal


def main() -> None:
    """Entry point of `fleetrun` and `python -m fleet.launch`."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # nohup and background shells ignore it
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from fleet.launch import cli

    cli.main()
