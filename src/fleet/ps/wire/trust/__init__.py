"""Who may talk to whom: the token of a job, the certificates of its processes, and TLS on both ways in.

Ask for `own_token` between processes of one user on one machine, for `tls` between machines.
"""
