"""`python -m fleet_tools.engines.replica LIVES COMMAND...`: a process that is started again in its place.

For engines that start no process again, or end the whole job over one that died: as far as they see, it has not. Only
for durable jobs, whose processes know where they were.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from types import FrameType

from fleet import env
from fleet.launch.durable.restart_policy import EARLY_S, NUM_EARLY, UNUSABLE, WINDOW_S


def keep(command: Sequence[str], lives: int) -> int:
    """Run the command until it ends in order, is told to end, or dies too often; the exit code to end with."""
    told: list[int] = []
    deaths: list[float] = []
    num_early = 0
    for life in range(sys.maxsize):
        began = time.monotonic()
        with subprocess.Popen(command, env=env.inherited() | {env.FLEET_LIFE.name: str(life)}) as process:

            def pass_on(number: int, _frame: FrameType | None, process: subprocess.Popen[bytes] = process) -> None:
                told.append(number)
                process.send_signal(number)

            for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1):
                signal.signal(number, pass_on)
            code = process.wait()
        if code == 0 or told or code == UNUSABLE:
            break
        now = time.monotonic()
        num_early = num_early + 1 if code > 0 and now - began < EARLY_S else 0
        deaths = [at for at in deaths if now - at < WINDOW_S] + [now]
        if len(deaths) > lives or num_early >= NUM_EARLY:
            print(f"replica: not started again, it has died {len(deaths)} times", file=sys.stderr, flush=True)
            break
        print(f"replica: started again after exit code {code}, life {life + 1}", file=sys.stderr, flush=True)
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(keep(sys.argv[2:], int(sys.argv[1])))
