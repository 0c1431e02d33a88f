"""Layers of images: convolution and pooling."""
