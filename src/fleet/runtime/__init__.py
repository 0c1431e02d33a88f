"""Joins model, optimizer, servers and workers: what `fleet.init_worker()` and its siblings do.

Rooms: modules (a job of torch modules beside servers), training (`fleet.Checkpoint`), saved (saves of a whole job),
planning (`fleet.plan`). `server_calls` has the calls of `fleet` in a job with servers, `collective_job` the models and
optimizers of a job without.
"""
