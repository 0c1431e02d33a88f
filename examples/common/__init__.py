"""What the examples resnet50, transformer and bert share: options, optimizers, batches ahead, what a run shows."""
