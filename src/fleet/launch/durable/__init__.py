"""A durable job on this machine: its folder and locks, who is started again, another number of servers, its end.

Ask `folder` before a round, `lives.Lives` about each death, `reshards.Reshards` for servers to start or stop,
`comebacks` for words, and `finished` when the job is over; what its processes know is theirs (`fleet.ps`).
"""
