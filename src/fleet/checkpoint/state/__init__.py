"""The state of a job to pieces and back: rows of tables, dense parameters, kept tensors, into any number of parts.

It knows pieces and manifests, and not who owns the state. Ask for `tables`, `dense` and `whole`.
"""
