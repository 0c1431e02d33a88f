"""One round on this machine: its processes are started, events are taken one by one, the end is reported.

Ask `watch.Attempt` to run a plan with a `crew.Crew`; it returns an `outcome.RoundOutcome`. `contract` says what it asks
of who strikes processes; `report` finds the cause, `follow` and `output` write to the terminal.
"""
