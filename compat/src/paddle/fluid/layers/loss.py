"""Losses."""

from paddle._alias import alias

alias(
    __name__,
    {
        "fleet_paddle.fluid.layers": "bpr_loss cross_entropy hsigmoid huber_loss kldiv_loss log_loss "
        "margin_rank_loss mse_loss nce rank_loss sampled_softmax_with_cross_entropy "
        "sigmoid_cross_entropy_with_logits smooth_l1 softmax_with_cross_entropy square_error_cost "
        "teacher_student_sigmoid_loss",
    },
)
