"""Gradients of the workers of one machine leave as one push.

Ask for `combined_transport`.
"""
