"""Where fleetrun begins: a Ctrl-C while the rest is being imported ends the process at once.

Python turns an interrupt into an exception, and drops that exception when it falls into a callback of its imports; the
job would then start all the same. Nothing has been started yet, so there is nothing to clean up either.
"""

import os
import signal
import sys


def end_at_interrupt() -> None:
    """From now on, and until the job has a handler of its own, Ctrl-C ends this process without a word: code 130."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # nohup and background shells ignore it
        signal.signal(signal.SIGINT, lambda number, _frame: os._exit(128 + number))


def main(*first: str) -> None:
    """Entry point of `fleetrun` and `python -m fleet.launch`; `first` stands before the arguments of the process."""
    end_at_interrupt()
    from fleet.launch import cli

    cli.main([*first, *sys.argv[1:]])
