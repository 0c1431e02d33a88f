"""A program as data: blocks, variables and operators, as text and as JSON, checked."""
