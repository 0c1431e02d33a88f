"""What the launcher and the processes of a job tell each other: small files, written whole or appended.

Processes write that they serve, have joined, wait, end, and what they count; the launcher reads it, and never a log.
Ask `process_files` for names, each other module for one kind of note, its writer and its reader side by side.
"""
