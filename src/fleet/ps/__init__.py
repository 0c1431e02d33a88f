"""The parameter server: what workers declare, what servers hold, and the calls between them.

In order, from the bottom: job, wire, journal, held, meetings, steps, durable, server; worker, stall, together, hot. A
room imports those before it. Outside this package ask for `worker.worker.Worker` and `server.service.Service`.
"""
