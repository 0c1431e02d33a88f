"""Readers made of readers."""

from paddle._alias import alias

alias(
    __name__,
    {
        "fleet_paddle.batches.reader": "ComposeNotAligned buffered cache chain compose firstn map_readers "
        "multiprocess_reader shuffle xmap_readers",
    },
)
