"""A job that can be watched: what the launcher writes down every second, and who may read it how.

`recorder` writes, and `tools` is how fleetrun asks `fleet_tools` to show a job while it runs, or to harm it. Nothing
here can hold a job up.
"""
