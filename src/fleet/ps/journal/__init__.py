"""A server's journal: whatever changes its state is a record on the disk before it is acknowledged.

The contract is `records`, the format. `writer` appends, `segments` reads back what a server that died has left,
`snapshots` are files of the same records that hold a whole state. What a record means is not known here
(`fleet.ps.durable.recovery`).
"""
