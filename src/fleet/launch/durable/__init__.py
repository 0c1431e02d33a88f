"""A durable job on this machine: its folder and locks, another number of servers, its end.

Ask `folder` before a round, `reshards.Reshards` for servers to start or stop, `scaling.Scaling` for workers, and
`finished` when the job is over. Who is started again is `fleet.job`'s to say, and what its processes know is theirs
(`fleet.ps`).
"""
