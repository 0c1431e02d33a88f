"""The values that a server holds: rows of tables, dense parameters, tensors it only keeps, and what changes them.

An update is read and checked whole (`requests`, `applicable`) before the first value changes. The contract of a dense
group is `dense`; ask for `holdings.Holdings`. Nothing here waits, knows the network or writes a journal.
"""
