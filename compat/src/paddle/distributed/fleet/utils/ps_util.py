"""Evaluation beside servers."""

from paddle._alias import alias

alias(__name__, {"fleet_paddle.jobs.inference_job": "DistributedInfer"})
