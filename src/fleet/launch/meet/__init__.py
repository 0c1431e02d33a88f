"""The launchers of a job's machines meet, round by round, and hear of each other's ends until the job is over.

Ask `agree.agree` for a layout with its ports held, and `team.Team` for rounds and news; `messages` is the contract.
One launcher is the `host`, each has a `link` to it; `job_token` says who belongs to the job.
"""
