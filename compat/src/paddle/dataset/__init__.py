"""Small datasets that tutorials use."""

from paddle._alias import alias

alias(
    __name__,
    parts="cifar common conll05 criteo flowers imdb imikolov mnist movielens uci_housing wmt14 wmt16",
    refused=dict.fromkeys(
        ("image", "mq2007", "sentiment", "voc2012"),
        "read your files with a reader of your own, and paddle.reader",
    ),
)
