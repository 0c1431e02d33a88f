"""Process groups and what is built on them; collectives themselves are torch.distributed's."""
