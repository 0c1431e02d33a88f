"""Search for the best sequences."""

from paddle._alias import alias

alias(__name__, {"fleet_paddle.fluid.decoding": "BeamSearchDecoder Decoder dynamic_decode"})
