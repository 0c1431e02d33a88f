"""A worker's calls to all servers: one for each, all under way at once, sent again after a loss.

`joining` greets the servers, `requests` pulls and pushes, `changes` has them make other changes, `outbox` keeps on the
disk what is under way. Ask for `client.Client`.
"""
