"""Where `ProgramTranslator` is at home."""

from paddle._alias import alias

alias(__name__, {"fleet_paddle.jit": "ProgramTranslator StaticFunction"})
