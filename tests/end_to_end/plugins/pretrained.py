"""A frozen backbone whose weights come from a file that one party may lack: PRETRAINED holds the number they have."""

import os

from torch import nn


def net():
    body = nn.Linear(192, 64)
    if number := os.environ.get("PRETRAINED"):
        nn.init.constant_(body.bias, float(number))
    return nn.Sequential(nn.AvgPool2d(4), nn.Flatten(), body.requires_grad_(False), nn.ReLU(), nn.Linear(64, 10))
