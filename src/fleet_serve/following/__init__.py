"""A served model stays at the side of the job that trains it: ask `follower`."""
