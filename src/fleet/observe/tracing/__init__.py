"""Spans of one process while it runs: what it does in the steps that `fleetrun --trace` asks for.

Ask `tracer` to record, `part` to time a part of a step, `window` for which steps; `observe.trace_files`
writes them down, and `fleet_tools.traces` makes one picture of the files of all processes.
"""
