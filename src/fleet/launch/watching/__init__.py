"""A job that can be watched: what the launcher writes down every second, and who may read it how.

`recorder` writes, and `readers` is how fleetrun asks `fleet_tools.watching` to show it while the job runs. Nothing here
can hold a job up.
"""
