"""How the workers of a collective job come together: one file for each SyncPolicy."""
