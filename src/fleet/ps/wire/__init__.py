"""How workers and servers talk: messages, transports, calls that are sent again, errors that keep their class.

A `transport.Transport` reaches one server; gRPC, the data plane and a server in this process are three of them. Ask
for a transport, for `calls.ServerCall`, which survives a lost connection, and for `messages`, bytes without a copy.
"""
