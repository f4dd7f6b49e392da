"""New rows and a trained model: rows prepared as in training, predictions, files in pieces, exported models.

No example of the run's data is read: what is needed stands in the run folder (settings.toml, data.json, the model).
"""

from fedlearn.predicting.predictor import Predictor
from fedlearn.predicting.preparation import Preparation

__all__ = ["Predictor", "Preparation"]
