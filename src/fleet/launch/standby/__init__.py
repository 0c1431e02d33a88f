"""What the machines of a job whose servers have copies agree on: who is what, and what becomes of a lost machine.

`orders` is what the meeting point says and what it is told; `keeper.Keeper` decides, in the thread of the meeting point
alone. What a machine does about it is in `run.station`, and who takes the place of a lost meeting point in `meet`.
"""
