"""Fields of one sparse table: storage, row rule, when a feature earns, keeps and loses its row.

A row may have two parts: `embed`, one weight, and `embedx`, a vector that exists once the feature is popular.
The fields that begin with `embed_` and `embedx_` set the rule of one part; left at None they follow the field
without prefix.
"""

from __future__ import annotations

from fleet.strategy.field import (
    maybe_number,
    maybe_span,
    maybe_text,
    number,
    span,
    switch,
    text,
    whole,
    wholes,
)
from fleet.strategy.group import Group

RULES = ("naive", "adagrad", "adagrad_v2", "std_adagrad", "adam", "shared_adam")
TABLES = (
    "MemorySparseTable",
    "SSDSparseTable",
    "MemorySparseGeoTable",
    "DownpourSparseTable",
    "DownpourSparseSSDTable",
)
ACCESSORS = (
    "SparseAccessor",
    "CtrCommonAccessor",
    "CtrDoubleAccessor",
    "CtrDymfAccessor",
    "DownpourSparseValueAccessor",
    "DownpourCtrAccessor",
    "DownpourCtrDoubleAccessor",
    "DownpourCtrDymfAccessor",
    "DownpourUnitAccessor",
    "DownpourDoubleUnitAccessor",
)


class SparseTable(Group):
    """One table."""

    sparse_table_class = text(
        "MemorySparseTable",
        "is where rows live: in memory, or cold ones on disk. The Downpour names are older spellings.",
        *TABLES,
    )
    sparse_accessor_class = text(
        "CtrCommonAccessor",
        "is the layout of a row. The Ctr layouts count shows and clicks, SparseAccessor does not.",
        *ACCESSORS,
    )
    sparse_shard_num = whole(1000, "is the number of shards the keys are hashed into, over all servers.", least=1)
    sparse_fea_dim = whole(11, "is the width of a pulled row, counters included.", least=1)
    sparse_embedx_dim = whole(8, "is the width of the vector part of a row.", least=1)
    sparse_embedx_threshold = number(10.0, "is the score from which a feature owns a vector.", least=0)

    sparse_optimizer = text("adagrad", "is the rule by which a gradient changes a row.", *RULES)
    sparse_learning_rate = maybe_number("is the rule's learning rate. None: 0.05, for Adam 0.001.", above=0)
    sparse_initial_range = number(1e-4, "is r when the first values are drawn from [-r, r].", least=0)
    sparse_initial_g2sum = number(3.0, "is the sum of squared gradients AdaGrad starts from.", above=0)
    sparse_weight_bounds = span(-10, 10, "is the range every weight is clamped to.")
    sparse_beta1_decay_rate = number(0.9, "is Adam's decay of the mean gradient.", least=0, below=1)
    sparse_beta2_decay_rate = number(0.999, "is Adam's decay of the mean squared gradient.", least=0, below=1)
    sparse_ada_epsilon = number(1e-8, "keeps Adam's division away from zero.", above=0)

    embed_sparse_optimizer = maybe_text("is the rule of the single weight.", *RULES)
    embed_sparse_learning_rate = maybe_number("is the learning rate of the single weight.", above=0)
    embed_sparse_initial_range = number(0.0, "is the initial range of the single weight. 0 starts it at zero.", least=0)
    embed_sparse_initial_g2sum = maybe_number("is AdaGrad's first sum for the single weight.", above=0)
    embed_sparse_weight_bounds = maybe_span("is the range of the single weight.")
    embed_sparse_beta1_decay_rate = maybe_number("is Adam's first decay for the single weight.", least=0, below=1)
    embed_sparse_beta2_decay_rate = maybe_number("is Adam's second decay for the single weight.", least=0, below=1)

    embedx_sparse_optimizer = maybe_text("is the rule of the vector.", *RULES)
    embedx_sparse_learning_rate = maybe_number("is the learning rate of the vector.", above=0)
    embedx_sparse_initial_range = maybe_number("is the initial range of the vector.", least=0)
    embedx_sparse_initial_g2sum = maybe_number("is AdaGrad's first sum for the vector.", above=0)
    embedx_sparse_weight_bounds = maybe_span("is the range of the vector's weights.")
    embedx_sparse_beta1_decay_rate = maybe_number("is Adam's first decay for the vector.", least=0, below=1)
    embedx_sparse_beta2_decay_rate = maybe_number("is Adam's second decay for the vector.", least=0, below=1)

    sparse_nonclk_coeff = number(0.1, "is what a show without a click adds to a feature's score.")
    sparse_click_coeff = number(1.0, "is what a click adds to a feature's score.")
    sparse_base_threshold = number(1.5, "is the score from which a row goes into a base or delta model.", least=0)
    sparse_delta_threshold = number(0.25, "is the recent score from which a row goes into a delta model.", least=0)
    sparse_delta_keep_days = number(16.0, "is for how many unseen days a row still goes into a delta model.", least=0)
    sparse_show_click_decay_rate = number(0.98, "multiplies shows and clicks at every shrink.", above=0, most=1)
    sparse_delete_threshold = number(0.8, "is the score below which a shrink deletes a row.", least=0)
    sparse_delete_after_unseen_days = number(30.0, "is after how many unseen days a shrink deletes a row.", least=0)
    sparse_ssd_unseenday_threshold = whole(1, "is after how many unseen days a row moves to disk.", least=0)

    sparse_compress_in_save = switch(True, "compresses saved shards.")
    sparse_converter = text("", "is a command each saved shard is piped through.")
    sparse_deconverter = text("", "is a command each loaded shard is piped through.")
    sparse_load_filter_slots = wholes("lists the slots whose rows are skipped by load.", least=0)
    sparse_save_filter_slots = wholes("lists the slots whose rows are skipped by save.", least=0)
    sparse_enable_cache = switch(True, "saves the hottest rows as a cache model too.")
    sparse_cache_rate = number(0.00055, "is the share of all rows that goes into a cache model.", least=0, most=1)
    sparse_cache_file_num = whole(16, "is the number of files of a cache model.", least=1)

    feature_learning_rate = number(0.05, "is the learning rate of node features in a graph table.", above=0)
    nodeid_slot = whole(9008, "is the slot that holds node ids in a graph table.", least=0)
