"""A client app that does not know fedlearn, in a module named as ours; it draws from every global generator."""

import random

import numpy as np
import torch
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

app = ClientApp()


@app.train()
def train(message, context):
    part = context.node_config["partition-id"]
    if part == context.run_config["failing"]:
        raise ValueError("no disk")
    trained = context.state.setdefault("trained", ConfigRecord({"times": 0}))
    trained["times"] += 1
    noise = random.random() + np.random.normal() + torch.rand(()).item()
    weights = message.content["arrays"]["w"].numpy() + context.run_config["noise.scale"] * noise + trained["times"]
    metrics = MetricRecord({"num-examples": 10 + part, "times": trained["times"]})
    return Message(RecordDict({"arrays": ArrayRecord({"w": Array(weights)}), "metrics": metrics}), reply_to=message)


@app.evaluate()
def evaluate(message, context):
    metrics = MetricRecord({"num-examples": 1, "mean": float(message.content["arrays"]["w"].numpy().mean())})
    return Message(RecordDict({"metrics": metrics}), reply_to=message)
