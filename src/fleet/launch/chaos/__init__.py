"""Faults on purpose: the launcher kills and stops processes, and reports what came back and what holds.

Ask `agent.with_chaos` for the plan whose processes harm their own calls, `agent.Agent` for who strikes, and
`report.tell` for the verdict at the end; `findings` reads what processes have noted.
"""
