"""A process ends in order, whatever its daemon threads do in the native core."""

from __future__ import annotations

import subprocess
import sys

# A server that answers nobody; threads that call it and wait, again and again; and the end of the script.
SCRIPT = """
import threading
from fleet import _native

called = threading.Event()
kept = []

def decide(reason, call):
    kept.append(call)
    if len(kept) > 20:
        called.set()

server = _native.PlaneServer([], "127.0.0.1", b"", 100, _native.Budget(1 << 30), 100.0, decide, lambda peer, why: None)
for number in range(2):
    threading.Thread(target=server.run, args=(number,), daemon=True).start()
client = _native.PlaneClient.tcp("127.0.0.1", server.port, b"", 5.0)

def call():
    while True:
        client.call(2, b"", [bytes(4000)], 0).wait(0.001)

for _ in range(6):
    threading.Thread(target=call, daemon=True).start()
assert called.wait(30)
"""


def test_daemon_threads_in_native_calls_do_not_abort_the_process() -> None:
    runs = [
        subprocess.Popen([sys.executable, "-c", SCRIPT], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        for _ in range(4)
    ]
    try:
        ends = [(run.communicate(timeout=60)[0], run.returncode) for run in runs]
    finally:
        for run in runs:
            run.kill()
            run.wait()
    assert ends == [("", 0)] * len(runs)
