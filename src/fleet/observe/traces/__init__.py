"""Traces as files: what `tracing` has recorded in each process is written, read again, joined on one clock, shown.

Ask `trace_files.begin` in a process to record what FLEET_TRACE says; `reading`, `clocks`, and `chrome` or `otlp` for
one picture of all processes.
"""
