"""Hangs of jobs with servers: a watch in every worker says who waits for whom, and ends the job.

`report` has what workers tell each other, decides who is to blame and says so; `watch.ServedWatch` runs it.
"""
