"""fleetrun: options -> what is needed -> meet -> plan -> processes -> events -> report; nothing here imports torch.

Rooms, each above those it is made of: arguments, tls, planning, {meet, processes}, durable, run, watching, rounds. The
doors are `entry` (the program) and `cli` (arguments to an exit code).
"""
