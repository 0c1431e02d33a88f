"""fleetrun: arguments -> plan -> processes -> watch -> report.

Read the files in that order: `entry`, `cli`, `options`, `plan` (with `devices`, `layout`, `server_layout`, and for
several machines `meeting`, `lobby`, `team`, `messages`), `child` (with `logs`), `guard`, `watch` (with `follow`,
`output`), `report`. Nothing here imports torch: the launcher starts in milliseconds.
"""
