"""A client app that does what the message says."""

import os
import time
from pathlib import Path

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

app = ClientApp()


@app.query()
def query(message, context):
    told = message.content["config"]
    for action in str(told.get("do", "")).split():
        ACTIONS[action](message, context)
    count = context.state.config_records.get("count", ConfigRecord({"calls": 0}))["calls"] + 1
    context.state["count"] = ConfigRecord({"calls": count})
    if told.get("do") == "forget":
        del context.state["count"]
    answer = ConfigRecord(
        {
            "calls": count,
            "pid": os.getpid(),
            "partition": context.node_config["partition-id"],
            "of": context.node_config["num-partitions"],
            "greeting": context.run_config["greeting"],
            "descriptors": len(list(Path("/proc/self/fd").iterdir())),
            "mappings": Path("/proc/self/maps").read_text().count("memfd:fedlearn"),
        }
    )
    return Message(RecordDict({"answer": answer, **message.content.array_records}), reply_to=message)


def _nothing(message, context):
    return None


def _raise(message, context):
    raise ValueError("no")


def _spoil(message, context):
    message.content["config"]["spoiled"] = True
    assert not message.content["config"].get("was-spoiled", False)


class _Unspeakable(Exception):
    def __str__(self):
        raise ValueError("no words")


def _raise_unspeakable(message, context):
    raise _Unspeakable


def _leave(message, context):
    raise GeneratorExit


def _hoard(message, context):
    context.state["hoard"] = ConfigRecord({"bytes": bytes(1_000_000)})


def _keep_the_unsayable(message, context):
    context.state["unsayable"] = ConfigRecord({"number": 2**70})


ACTIONS = {
    "raise-unspeakable": _raise_unspeakable,
    "leave": _leave,
    "hoard": _hoard,
    "keep-the-unsayable": _keep_the_unsayable,
    "exit": lambda message, context: os._exit(5),
    "raise": _raise,
    "hang": lambda message, context: time.sleep(3600),
    "doze": lambda message, context: time.sleep(2.5),
    "nap": lambda message, context: time.sleep(0.3),
    "fork": lambda message, context: os.fork(),
    "forget": _nothing,
    "spoil": _spoil,
}


@app.query("unsayable")
def unsayable(message, context):
    context.state["asked"] = ConfigRecord({"asked": True})
    return Message(RecordDict({"metrics": MetricRecord({"number": 2**70})}), reply_to=message)


@app.query("nothing")
def nothing(message, context):
    return None


@app.train()
def train(message, context):
    record = next(iter(message.content.array_records.values()))
    after = {name: Array(array.numpy() + np.float32(context.node_id)) for name, array in record.items()}
    return Message(
        RecordDict({"arrays": ArrayRecord(after), "metrics": MetricRecord({"num-examples": 1})}), reply_to=message
    )


@app.evaluate()
def evaluate(message, context):
    return Message(RecordDict({"metrics": MetricRecord({"num-examples": 1, "loss": 0.5})}), reply_to=message)
