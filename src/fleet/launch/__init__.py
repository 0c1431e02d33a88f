"""fleetrun: arguments -> plan -> processes -> watch -> report.

Read the files in that order: `cli`, `options`, `plan` (with `devices`, `layout`, `server_layout`, `meeting`, `lobby`,
`team`), `child` (with `logs`), `guard`, `watch` (with `follow`), `report`. Nothing here imports torch: the launcher
starts in milliseconds.
"""
