"""How far a TrainJob of Kubeflow has come, told to its controller, which shows it as the job's `trainerStatus`.

    progress = TrainJobProgress(total=10_000)
    for step in fleet.steps(10_000):
        ...
        progress.tell(step + 1, loss=loss.item())
    progress.close()

The controller says in three variables where to (Kubeflow Trainer 2.2, feature gate `TrainJobStatus`). Without them, and
on other workers than the first, nothing happens. A thread tells, at most every `EVERY_S`: training waits for nobody,
and no failure of the controller is one of the job.
"""

from __future__ import annotations

import json
import logging
import math
import os
import ssl
import threading
import time
from pathlib import Path
from urllib.error import URLError
from urllib.request import Request, urlopen

URL, CA, TOKEN = (f"KUBEFLOW_TRAINER_SERVER_{name}" for name in ("URL", "CA_CERT", "TOKEN"))
EVERY_S = 5.0
TIMEOUT_S = 10.0

log = logging.getLogger(__name__)


class TrainJobProgress:
    """Tells what is done of `total` steps, or whatever the script counts; metrics are numbers by name."""

    def __init__(self, total: int, *, every_s: float = EVERY_S) -> None:
        self._total, self._every_s = max(1, total), every_s
        self._began_at, self._began_with = time.monotonic(), 0
        self._news: dict[str, object] | None = None
        self._has_news, self._is_closed, self._has_failed = threading.Event(), threading.Event(), False
        self._url = os.environ.get(URL)
        self._thread = threading.Thread(target=self._run, name="trainer-status", daemon=True)
        is_first = os.environ.get("FLEET_INDEX", os.environ.get("PADDLE_TRAINER_ID", "0")) == "0"
        self._is_used = self._url is not None and is_first
        if self._is_used:
            self._thread.start()

    def tell(self, done: int, **metrics: float) -> None:
        """So much is done; returns at once."""
        if not self._is_used:
            return
        if not self._began_with:  # a next life begins where the former was
            self._began_with, self._began_at = done, time.monotonic()
        status: dict[str, object] = {"progressPercentage": max(0, min(100, 100 * done // self._total))}
        made, took_s = done - self._began_with, time.monotonic() - self._began_at
        if made > 0:
            status["estimatedRemainingSeconds"] = round(took_s / made * max(0, self._total - done))
        known = {name: float(value) for name, value in metrics.items()}
        status["metrics"] = [{"name": name, "value": str(one)} for name, one in known.items() if math.isfinite(one)]
        self._news = status
        self._has_news.set()

    def close(self) -> None:
        """Tell the last of it; waits no longer than one message may take."""
        if self._is_used:
            self._is_closed.set()
            self._has_news.set()
            self._thread.join(TIMEOUT_S)
            self._is_used = False

    def _run(self) -> None:
        while not self._is_closed.is_set():
            self._has_news.wait()
            self._has_news.clear()
            news, self._news = self._news, None
            if news is not None:
                self._send(news)
            self._is_closed.wait(self._every_s)
        if self._news is not None:
            self._send(self._news)

    def _send(self, status: dict[str, object]) -> None:
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        body = json.dumps({"trainerStatus": {**status, "lastUpdatedTime": now}}).encode()
        try:
            token = Path(os.environ[TOKEN]).read_text().strip()  # it changes while the job runs
            headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
            trusted = ssl.create_default_context(cafile=os.environ[CA])
            with urlopen(Request(str(self._url), body, headers), timeout=TIMEOUT_S, context=trusted):
                self._has_failed = False
        except (OSError, KeyError, ValueError, URLError) as error:
            if not self._has_failed:
                log.warning("the TrainJob does not hear of its progress, trying on: %s", error)
            self._has_failed = True
