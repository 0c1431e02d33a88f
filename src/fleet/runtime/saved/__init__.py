"""Saves of a whole job, written by all its servers into one folder.

Worker 0 asks, the servers write their parts, the manifest comes last. Ask for `saving`.
"""
