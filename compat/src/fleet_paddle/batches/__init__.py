"""From samples to batches: readers, samplers, what puts samples together, and loaders."""
