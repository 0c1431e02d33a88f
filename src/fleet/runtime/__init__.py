"""Joins model, optimizer, servers and workers: what `fleet.init_worker()` and its siblings do."""
