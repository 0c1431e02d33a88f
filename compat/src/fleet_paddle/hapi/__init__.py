"""Training without a loop of one's own: `Model` with `fit`, `evaluate` and `predict`, and what is called meanwhile.

model      `Model`: what scripts call
batches    one batch: forward, loss, backward, metrics; with several workers, results of all of them
programs   the same for a network that was made after `enable_static()`
loading    loaders of datasets, divided among the workers
callbacks  `Callback`, and the list of those that a call has
progress   what `fit` prints
standard   checkpoints, schedules, early stops
summary    layers and their sizes as a table; flops, what a forward pass costs
"""
