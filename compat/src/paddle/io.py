"""Batches of datasets."""

from paddle._alias import alias

alias(
    __name__,
    {"fleet.either.io": "*"},
    refused={
        "ChainDataset": "use torch.utils.data.ChainDataset",
        "ComposeDataset": "use torch.utils.data.StackDataset",
        "get_worker_info": "use torch.utils.data.get_worker_info",
        "random_split": "use torch.utils.data.random_split",
    },
)
