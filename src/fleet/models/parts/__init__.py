"""What models share: what they take, how features become rows, layers, attention over histories.

Ask for `base.Recommender` and `features`.
"""
