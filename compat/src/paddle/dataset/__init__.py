"""Small datasets that tutorials use."""

from paddle._alias import alias

alias(
    __name__,
    parts="cifar criteo imdb imikolov mnist movielens uci_housing",
    refused=dict.fromkeys(
        ("common", "conll05", "flowers", "image", "mq2007", "sentiment", "voc2012", "wmt14", "wmt16"),
        "read your files with a reader of your own, and paddle.reader",
    ),
)
