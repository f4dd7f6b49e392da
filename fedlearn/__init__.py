"""fedlearn: federated learning in rounds of selection, configuration and reporting, on Flower."""

__version__ = "0.1.0"
