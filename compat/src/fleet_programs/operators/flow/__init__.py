"""Operators that run blocks: branches and loops."""
