"""Faults on purpose: the launcher kills and stops processes, and reports what came back and what holds.

Ask `job.ChaosJob`, in the launcher: its `agent` strikes, and `agent.with_chaos` has processes harm their own calls.
`report` tells the verdict at the end; `findings` reads what processes have noted.
"""
