"""Decoders of words, for training and for beam search."""

from paddle._alias import alias

alias(__name__, {"fleet_paddle.programs.networks.decoders": "*"}, parts="beam_search_decoder")
