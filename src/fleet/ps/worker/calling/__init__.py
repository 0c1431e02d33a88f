"""A worker's calls to all servers: one for each, all under way at once, sent again after a loss.

`joining` greets the servers, `requests` pulls and pushes, `outbox` keeps the push under way on the disk. Ask for
`client.Client`.
"""
