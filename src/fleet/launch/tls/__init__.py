"""Certificates of a job, minted from its token by every launcher for its own machine; no key ever travels.

Ask `certificates` what cannot work (`refuse_tls`), what the machines must agree on (`terms`), and for the `variables`
that name a machine's files; `authority` signs.
"""
