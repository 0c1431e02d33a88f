"""GPUs, as torch knows them."""

from paddle._alias import alias

alias(
    __name__,
    {"torch.cuda": "Event Stream current_stream device_count empty_cache synchronize"},
)
