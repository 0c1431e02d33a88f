"""Who follows a folder is woken up, however many connections its process has."""

from __future__ import annotations

import os
import threading
from contextlib import ExitStack
from pathlib import Path

import pytest

from fleet.stream.sinks import FolderSink
from fleet_serve.following.notices import FolderNotices


def test_a_process_with_a_thousand_connections_is_woken_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fleet_serve.following.notices.FAR_S", 60.0)
    sink = FolderSink(str(tmp_path))
    sink.folder("one", 0).mkdir(parents=True)
    with ExitStack() as stack:
        while (file := os.open(os.devnull, os.O_RDONLY)) < 1100:
            stack.callback(os.close, file)
        stack.callback(os.close, file)
        notices = FolderNotices(sink, "one", 1)
        stack.callback(notices.close)
        notices.wait(0.0)  # from now on the folder is watched
        woken = threading.Thread(target=notices.wait, args=(60.0,))
        woken.start()
        (sink.folder("one", 0) / "1").touch()
        woken.join(60)
        assert not woken.is_alive()
