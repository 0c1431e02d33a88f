"""One worker's part of an epoch: which batches, in which order, and where it goes on after a restart.

Ask for `base.Shard`, `stream` and `workers`.
"""
