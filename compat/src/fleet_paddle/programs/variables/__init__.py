"""What variables can do as tensors do: methods, subscripts, sizes; dtypes, and values by name."""
