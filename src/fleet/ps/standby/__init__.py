"""A second copy of a server, on another machine: it has the server's journal and state, and may take its place.

`standing` knows which of both a process is, by the job's terms; `copies` is the server's side, with its files in
`fills`, `following` the copy's, and `standby.Standby` joins them for one process. The records are those of
`fleet.ps.journal`; nothing else is streamed.
"""
