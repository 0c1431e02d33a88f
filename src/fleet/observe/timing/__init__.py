"""What runs every so often and how long things took; everything else in `observe` may use it.

Ask `periodic.Periodic` for a thread with one piece of work, `duration.in_words` for a time as people say it.
"""
