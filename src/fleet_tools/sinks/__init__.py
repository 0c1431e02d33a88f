"""Brokers that carry the changes which servers publish (`fleet.stream.sinks`); ask for `opening`.

A broker is a class under the contract in `contract`: names with bytes, each put once. `broker` makes a sink of it.
"""
