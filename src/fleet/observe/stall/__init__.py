"""When somebody waits too long, in whatever kind of job: one calls, all say where they are, one reports, all end.

Ask `watch.Watch` to be the base of a watch; collective jobs and jobs with servers each bring a `watch.Board`, over
which the watches talk, and the words for what they wait for.
"""
