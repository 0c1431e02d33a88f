"""What is called while a Model trains."""

from paddle._alias import alias

alias(
    __name__,
    {
        "fleet_paddle.hapi.callbacks": "Callback",
        "fleet_paddle.hapi.progress": "ProgBarLogger",
        "fleet_paddle.hapi.standard": "EarlyStopping LRScheduler ModelCheckpoint ReduceLROnPlateau VisualDL",
    },
)
