"""Who follows a folder is told of a batch at once."""

from __future__ import annotations

import sys
import threading
import time
from pathlib import Path

import pytest

from fleet.stream.sinks import FolderSink
from fleet_serve.following import notices


@pytest.mark.skipif(sys.platform != "linux", reason="inotify is Linux's")
def test_a_batch_wakes_up_who_waits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notices, "FAR_S", 60.0)
    sink = FolderSink(str(tmp_path))
    one = notices.FolderNotices(sink, "stream", 2)
    one.wait(0.001)  # no folder is there yet: it looks again
    for shard in range(2):
        sink.put("stream", shard, 1, b"one")
    one.wait(0.001)
    for shard in range(2):
        putting = threading.Thread(target=sink.put, args=("stream", shard, 2, b"two"))
        began = time.monotonic()
        putting.start()
        one.wait(60.0)
        putting.join()
        assert time.monotonic() - began < 30.0
        one.wait(0.001)  # what its other name has told
    one.close()
    one.wait(0.001)
