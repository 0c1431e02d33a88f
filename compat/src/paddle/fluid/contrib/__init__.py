"""What had not settled yet."""

from paddle._alias import alias

alias(
    __name__,
    renamed={"sparse_embedding": "fleet.static.nn:sparse_embedding"},
    refused={
        "mixed_precision": "train a torch module with strategy.amp = True",
        "memory_usage": "use torch.cuda.max_memory_allocated",
        "slim": "train a torch module with torch.ao",
        "Trainer": "write the loop: exe.run(feed=..., fetch_list=[...])",
    },
)
