"""Evaluation beside servers."""

from paddle._alias import alias

alias(__name__, {"fleet_paddle.inference_job": "DistributedInfer"})
