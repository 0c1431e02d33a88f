"""Predicts clicks with what train.py left in `model`: no job, no servers."""

import sys

import torch
from train import DeepFM, read

import fleet

model = fleet.load_inference_model("model", DeepFM())
ids, numbers, labels = read(sys.argv[1])
print(torch.sigmoid(model(ids, numbers)))
