"""Worker 0 prints the wall clock on the line after fleet.init."""

import time

import fleet

fleet.init(is_collective=True)
if fleet.is_first_worker():
    print("READY", time.time(), fleet.worker_num(), flush=True)
