"""What fleetrun does besides starting a job: `fleetrun plan` and `fleetrun reshard`.

Ask each module to run its arguments; it returns the exit code. `fleetrun view`, `top` and `trace` are of `watching`.
"""
