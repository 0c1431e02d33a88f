"""What hangs on the steps of a worker: the contract of its parts, and parts that belong to no other room.

`meters` adds up where its time goes, `forgotten_calls` warns of loops that lack a call. The contract is `contract`;
ask for `contract.StepPart`.
"""
