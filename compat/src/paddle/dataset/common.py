"""`paddle.dataset.common`."""

from paddle._alias import alias

alias(__name__, {"fleet.data.classic.common": "*"}, live="DATA_HOME")
