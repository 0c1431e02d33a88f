"""Readers that run beside the program."""

from paddle._alias import alias

alias(
    __name__,
    {"fleet_programs": "EOFException", "fleet_paddle.program_loaders": "PyReader"},
    renamed={"DataLoader": "fleet_paddle.io:DataLoader"},
)
