"""What hangs on the steps of a worker: the contract of its parts, and parts that belong to no other room.

`meters` adds up where its time goes, `measured_steps` reports each step, `no_hot_tables` is what a job without hot rows
has. The contract is `contract`; ask for `contract.StepPart`.
"""
