"""Measures of models and of time: within a program, and in Python over what `exe.run` fetched."""
