"""Readers that run beside the program."""

from paddle._alias import alias

alias(
    __name__,
    {"fleet_programs": "EOFException", "fleet_paddle.batches.program_loaders": "PyReader"},
    renamed={"DataLoader": "fleet_paddle.batches.io:DataLoader"},
)
