"""Predictors: a saved model that arrays go into and come out of, by name.

    predictor = create_predictor(Config("model/ctr.pdmodel", "model/ctr.pdiparams"))
    predictor.get_input_handle("x").copy_from_cpu(array)
    predictor.run()
    predictor.get_output_handle(predictor.get_output_names()[0]).copy_to_cpu()

config.py      which files, which device
models.py      what runs: a program of `save_inference_model`, or a layer of `jit.save`
handles.py     what goes in and what comes out
predictor.py   them together
"""

from fleet_paddle.inference.config import Config, PrecisionType
from fleet_paddle.inference.handles import Handle, PaddleTensor
from fleet_paddle.inference.predictor import Predictor, create_predictor

__all__ = ["Config", "Handle", "PaddleTensor", "PrecisionType", "Predictor", "create_predictor"]
