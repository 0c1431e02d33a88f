"""A job that can be watched: what the launcher writes down every second, and who may read it how.

Ask `recorder` and `board` to write, `watch_ports` for the port of a running job; `door` answers whom `access` admits.
`fleet_tools` has the commands for a job that has ended. Nothing here can hold a job up.
"""
