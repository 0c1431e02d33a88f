"""A server: one `service.Service` that answers every call, and the ways in that lead to it.

`declaring` begins a job, `pushes` answers pulls and pushes, `changing` what else changes a server; `grpc_server` and
`plane_server` are the ways in, each behind its door. `python -m fleet.ps.server` is `process`. The contract is
`fleet.ps.wire.transport.Handler`; ask for `process.make_service` and `process.serve`.
"""
