"""Layers and functions that can be saved; they run as the Python that they are."""

from paddle._alias import alias

alias(
    __name__,
    {
        "fleet_paddle.jit": "ProgramTranslator TracedLayer TranslatedLayer load not_to_static save to_static",
    },
    refused={
        "set_code_level": "nothing is rewritten here, so that there is no code to show",
        "set_verbosity": "nothing is rewritten here, so that there is nothing to tell of",
    },
)
