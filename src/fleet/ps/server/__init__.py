"""A server: one `service.Service` that answers every call, and the ways in that lead to it.

`pushes` answers pulls and pushes; `grpc_server` and `plane_server` are the ways in, each behind its door. `python -m
fleet.ps.server` is `process`. Ask for `process.make_service` and `process.serve`.
"""
