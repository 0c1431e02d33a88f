"""How workers and servers talk: messages, transports, calls that are sent again, errors that keep their class.

The contract is `transport`: a `transport.Transport` reaches one server, by gRPC, by the data plane or in this
process. Ask also for `calls.ServerCall`, which survives a lost connection, and for `messages`, bytes without a copy.
"""
