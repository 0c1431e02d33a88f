"""One process at a time: started as a session of its own, its exit noticed, its log opened, and nothing left of it.

Ask `child.Child` for a running process of a `ready.ReadyProcess`, `logs` for log files, `guard` for the end of all that
belongs to a job, `endings` for words about exit codes.
"""
