"""fleetrun: arguments -> plan -> processes -> watch -> report.

Read the files in that order: `cli`, `options`, `plan` (with `devices`, `collective`, `server_job`, `meeting`), `child`,
`guard`, `watch` (with `follow`), `report`. Nothing here imports torch: the launcher starts in milliseconds.
"""
