"""Files of a checkpoint: whole or not there, counted and summed, and what is in their bytes.

Ask for `pieces.read_piece` and `pieces.write_piece` (one safetensors file), and for `forms`, what pieces hold.
"""
