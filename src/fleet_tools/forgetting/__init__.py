"""What `fleet.forget` does beside the servers: files are written without the rows of some ids, and searched for them.

Ask for `running.forget` in a job, for `cleaning.Cleaner` without one. `ids` reads ids, `saves` rewrites what was saved,
`streams` what was published, and `searching` looks into every file, by the patterns of `patterns`.
"""
