"""Checkpoints of a training run: one folder for each step, and which of them is the newest that is whole.

Ask for `steps` and `training`.
"""
