"""What a server must not lose besides its values: whose pushes it has taken, which step it is at, and who waits.

`state` has one method for each kind of change; `core` puts locks, gate and door around it. The contract is `core.Core`.
"""
