"""Functions that can be saved."""

from paddle._alias import alias

alias(
    __name__,
    {"fleet_paddle.jit": "ProgramTranslator"},
    renamed={"convert_to_static": "fleet_paddle.jit:to_static"},
    parts="program_translator",
)
