"""A worker's side of training: rows for its batches, gradients to the servers, steps in the mode of the job.

Rooms: asking (keys and rows), sending (gradients), calling (the servers), modes (when to wait for whom), life (what a
next life of this worker needs), parts (the contract of what hangs on its steps). Ask for `worker.Worker` and
`optimizer.ServerOptimizer`.
"""
