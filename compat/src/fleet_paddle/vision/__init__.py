"""`paddle.vision`: images as arrays, as PIL's or as tensors, changed, read, classified; without torchvision."""
