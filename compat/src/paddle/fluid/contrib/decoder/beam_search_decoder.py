"""`paddle.fluid.contrib.decoder.beam_search_decoder`."""

from paddle._alias import alias

alias(__name__, {"fleet_paddle.programs.networks.decoders": "*"})
