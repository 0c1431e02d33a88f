"""What fleetrun does besides starting a job: `plan`, `reshard`, `scale`, `view`, `top` and `trace`.

Each is a command of click whose value is the exit code, and an entry point of the group `fleet.commands`. Others belong
to packages of `fleet`: `verify_checkpoint` to `python -m fleet.checkpoint`, `verify_journal` to `fleet.ps.journal`.
"""
