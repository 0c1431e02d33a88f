"""The life of a job on this machine: rounds are prepared and run until one ends well or there is no other.

Ask `job.Job` to run it all, or `prepare.prepare` for the plan of one round with its ports held and its machines met.
It joins the rooms below, and knows the order of their steps.
"""
