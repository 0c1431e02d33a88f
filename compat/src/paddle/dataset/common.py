"""`paddle.dataset.common`."""

from paddle._alias import alias

alias(__name__, {"fleet_paddle.dataset.common": "*"}, live="DATA_HOME")
