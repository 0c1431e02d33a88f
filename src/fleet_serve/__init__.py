"""`fleet-serve`: a server that answers lookups, and follows the job that trains the model.

`rows` has a model as it is served: files that are mapped, and the changes since. `following` keeps it at the side of
its job, `doors` answer by gRPC and HTTP, `command` is what people start, `client` asks such a server.
"""
