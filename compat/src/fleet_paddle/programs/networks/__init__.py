"""Layers together under the names that scripts know: attention, recurrent networks, decoders, click models."""
