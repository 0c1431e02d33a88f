"""Files to batches: who reads which piece, in which order, and how far everybody is."""
