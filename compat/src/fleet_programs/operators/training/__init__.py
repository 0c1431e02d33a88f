"""Operators that update parameters, and those that talk to servers."""
