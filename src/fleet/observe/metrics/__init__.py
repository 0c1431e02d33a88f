"""Figures of every process: counted where things happen, written once a second, read by fleetrun.

Ask `registry` to count, `steps` and `reports` for what a worker's step and script say, `writer.begin` in a process that
is to be seen; `catalogue` names every figure. `fleet_tools.watching` shows those of all processes.
"""
