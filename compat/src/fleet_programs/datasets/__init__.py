"""Datasets of MultiSlot text, as PaddlePaddle has them: in memory, or read while training."""
