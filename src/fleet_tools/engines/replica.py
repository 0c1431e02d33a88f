"""`python -m fleet_tools.engines.replica FOLDER COMMAND...`: one process of a job that fails as a whole.

For engines that let the others wait where one has failed, as TorchX's local scheduler does. A failure is noted in
FOLDER, which all replicas of the job see, and the others end too. Who lives again is for `fleet.job`, inside.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from fleet.job.endings import exit_code

_LOOK_S = 0.5
_GRACE_S = 10.0


def together(command: Sequence[str], folder: Path) -> int:
    """Run the command until it ends, or another replica has failed; returns the exit code. Signals are passed on."""
    failed, told, num_passed = folder / "failed", list[int](), 0
    for one in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1):
        signal.signal(one, lambda number, _frame: told.append(number))
    with subprocess.Popen(command) as process:
        while (status := _ended(process, _LOOK_S)) is None:
            for number in told[num_passed:]:
                process.send_signal(number)
                num_passed += 1
            if failed.exists() and not told:
                print("replica: another process of the job has failed, so this one ends", file=sys.stderr, flush=True)
                process.terminate()
                if _ended(process, _GRACE_S) is None:
                    process.kill()
                return 1
    if status != 0 and not told:
        failed.parent.mkdir(parents=True, exist_ok=True)
        failed.touch()
    return exit_code(status)


def _ended(process: subprocess.Popen[bytes], limit_s: float) -> int | None:
    """Its return code, once it has ended within this time."""
    try:
        return process.wait(limit_s)
    except subprocess.TimeoutExpired:
        return None


if __name__ == "__main__":
    sys.exit(together(sys.argv[2:], Path(sys.argv[1])))
