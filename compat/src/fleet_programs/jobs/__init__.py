"""Static programs in a job: what their `send`, `recv` and `c_allreduce_sum` do, and `minimize` that puts them there."""
