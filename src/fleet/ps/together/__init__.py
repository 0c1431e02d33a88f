"""What workers do with all servers at once: meet, ask for one moment of all, change the number of servers.

Ask for `worker_meetings.WorkerMeetings`, `cutting.cut` and `resharding.reshard`; the servers' sides are in `durable`
and `meetings`.
"""
