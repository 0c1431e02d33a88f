"""How samples become a batch."""

from paddle._alias import alias

alias(__name__, {"fleet_paddle.batches.collating": "default_collate_fn default_convert_fn"})
