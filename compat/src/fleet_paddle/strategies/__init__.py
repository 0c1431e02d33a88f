"""`paddle.distributed.fleet.DistributedStrategy`: every field of versions 2.0 to 2.2 can be set, read and saved.

form.py        the fields as protobuf's text format knows them
prototxt.py    `save_to_prototxt` and `load_from_prototxt`
shown.py       the table that `print(strategy)` shows
hints.py       fields that choose between ways to the same result
strategy.py    the class
not_built.py   the settings that Fleet does not have, and what to do instead; support.py: how they are read and refused
program_strategy.py   the base of all strategies here, with the fields about programs
reference.py   docs/migrate/settings.md

Beside it, the strategies of version 1.x: `collective_strategy`, `server_strategy` and `server_modes` with their
`runtime_config`.
"""
