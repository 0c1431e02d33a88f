"""Mixed precision in programs: casts in the forward pass, a loss that is scaled, gradients that are looked at.

optimizer = amp.decorate(static.optimizer.SGD(0.1), init_loss_scaling=1024.0)
optimizer.minimize(loss)

lists.py       which operators compute in half precision
casting.py     the casts
decorated.py   the optimizer around the user's
"""

from fleet_programs.amp.decorated import MixedPrecision, decorate
from fleet_programs.amp.lists import AutoMixedPrecisionLists

__all__ = ["AutoMixedPrecisionLists", "MixedPrecision", "decorate"]
