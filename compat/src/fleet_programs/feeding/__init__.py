"""How batches reach a program."""
