"""How a server's state outlives its process, is saved, and moves to other servers.

`durability` writes journal and snapshots, `recovery` reads them back; `saves` and `cut` write checkpoints of one
moment; `moving` and `arriving` hand rows to another number of servers. What a server writes is a
`storage.ServerContents`. Ask for `durability.Durability`.
"""
