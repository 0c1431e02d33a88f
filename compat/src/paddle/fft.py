"""Fourier transforms of tensors."""

from paddle._alias import alias

alias(__name__, {"fleet_paddle.fft": "*"})
