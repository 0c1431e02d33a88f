"""A trace of a job: the files that its processes have written are read, joined on one clock, and shown.

Ask `gathering` in the launcher of a job; `reading`, and `chrome` or `otlp` for one picture of all processes.
"""
