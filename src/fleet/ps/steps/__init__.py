"""What a server must not lose besides its values: whose pushes it has taken, which step it is at, and who waits.

`changes` is the table of all that can happen, `state` what it happens to; `core` puts locks, gate and door around both.
The contract is `core.Core`.
"""
