"""Running programs: scopes and places, one lowering to torch, and the Executor."""
