"""Parts of a collective step: averaging, mixed precision, recompute, merging of gradients, compression, compiling.

Each part is one file and knows no other mode than its own; `collective.compose` chooses among them.
"""
