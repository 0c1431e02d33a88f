"""What is called while a Model trains."""

from paddle._alias import same_as

same_as(__name__, "paddle.callbacks")
