"""When somebody waits too long, in whatever kind of job: one calls, all say where they are, one reports, all end."""
