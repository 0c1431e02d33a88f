"""A job whose processes a test starts itself, one by one, as an engine does: no fleetrun is near."""

from __future__ import annotations

import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

from support.jobs import LIMIT_S, Process, clean_environ, end, start
from support.processes import wait_until

SERVER = [sys.executable, "-m", "fleet.ps.server"]


class JobByHand:
    """Servers that a folder lists, and workers; all have one journal."""

    def __init__(self, cwd: Path, *, servers: int, workers: int, **environ: str) -> None:
        cwd.mkdir(exist_ok=True)
        self.is_warm = True
        """False: processes have interpreters of their own, which end as such do, by an exit code of their own too."""
        self.cwd = cwd
        self.where = cwd / "where"
        self._environ = {
            **clean_environ(),
            "FLEET_SERVERS": f"file:{self.where}",
            "FLEET_SERVER_NUM": str(servers),
            "FLEET_WORKERS": str(workers),
            "FLEET_DURABLE": str(cwd / "kept"),
            "POD_IP": "127.0.0.1",
            **environ,
        }
        self._processes: dict[str, Process] = {}
        self._lives: list[Process] = []

    def server(self, index: int) -> None:
        """Start a server, or start it again; on return it is listed where it listens."""
        former = self.address(index)
        self._start(f"server-{index}", SERVER, FLEET_ROLE="server", FLEET_INDEX=str(index))
        process = self._processes[f"server-{index}"]
        wait_until(lambda: self.address(index) != former or process.poll() is not None, LIMIT_S, f"server {index}")
        assert process.poll() is None, process.communicate()

    def worker(self, index: int, *script: object) -> None:
        """Start a worker, or start it again."""
        self._start(f"worker-{index}", [sys.executable, *script], FLEET_ROLE="worker", FLEET_INDEX=str(index))

    def address(self, server: int) -> str | None:
        """Where a server listens, as its folder says."""
        path = self.where / f"server-{server}"
        return path.read_text().strip() if path.exists() else None

    def kill(self, name: str) -> None:
        """End a process as kill -9 does."""
        process = self._processes[name]
        process.kill()
        process.wait(LIMIT_S)

    def signal(self, name: str, number: signal.Signals) -> None:
        """Send a process a signal."""
        self._processes[name].send_signal(number)

    def finish(self, name: str) -> tuple[int, str, str]:
        """Wait for the end of a process; its exit code, and what it wrote."""
        process = self._processes[name]
        out, err = process.communicate(timeout=LIMIT_S)
        code = process.poll()
        assert code is not None
        return code, out, err

    def _start(self, name: str, command: Sequence[object], **environ: str) -> None:
        process = start(command, self.cwd, self._environ | environ, warm=self.is_warm)
        self._processes[name] = process
        self._lives.append(process)

    def __enter__(self) -> JobByHand:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for process in self._lives:
            end(process)
