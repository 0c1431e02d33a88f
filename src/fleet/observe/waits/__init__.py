"""Waits that grow long are told: in the process's log, and to fleetrun by `jobfiles.wait_notes`.

Ask `waiting.LongWait` (or `told_meanwhile`) around whatever waits, and `limits` for how long that may take before it
is a stall, which `observe.stall` is about.
"""
