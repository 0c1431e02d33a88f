"""The groups that can talk in a collective job, and how its processes find each other.

Ask for `worlds.Worlds`, `group.start_process_group` and `util`.
"""
