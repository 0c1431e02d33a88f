"""Hangs of jobs with servers: a watch in every worker says who waits for whom, and ends the job.

`state` is what workers tell each other, `report` decides who is to blame and says so, `watch.ServedWatch` runs both.
"""
