"""A job that can be watched: what the launcher writes down every second, and who may read it how.

Ask `recorder`, `traces` and `board` to write, `watch_ports` for the port of a running job, `view_commands` and
`trace_command` for one that has ended; `door` answers whom `access` admits. Nothing here can hold a job up.
"""
