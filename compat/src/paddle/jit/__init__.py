"""Layers and functions that can be saved; they run as the Python that they are."""

from paddle._alias import alias

alias(
    __name__,
    {
        "fleet_paddle.jit": "ProgramTranslator TracedLayer TranslatedLayer load not_to_static save "
        "set_code_level set_verbosity to_static",
    },
)
