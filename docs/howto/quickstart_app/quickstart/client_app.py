"""What a node does."""

from __future__ import annotations

from typing import Any

from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from quickstart.task import Net, loaders
from quickstart.task import test as test_net
from quickstart.task import train as train_net

app = ClientApp()


@app.train()
def train(msg: Message, context: Context) -> Message:
    """Train on this node's examples."""
    net, (batches, _) = _net_of(msg), _loaders_of(context)
    loss = train_net(net, batches, int(context.run_config["local-epochs"]), float(msg.content["config"]["lr"]))
    metrics = MetricRecord({"train_loss": loss, "num-examples": len(batches.dataset)})
    return Message(RecordDict({"arrays": ArrayRecord(net.state_dict()), "metrics": metrics}), reply_to=msg)


@app.evaluate()
def evaluate(msg: Message, context: Context) -> Message:
    """Evaluate on this node's test examples."""
    batches = _loaders_of(context)[1]
    loss, accuracy = test_net(_net_of(msg), batches)
    metrics = MetricRecord({"eval_loss": loss, "eval_acc": accuracy, "num-examples": len(batches.dataset)})
    return Message(RecordDict({"metrics": metrics}), reply_to=msg)


def _net_of(msg: Message) -> Net:
    net = Net()
    net.load_state_dict(msg.content["arrays"].to_torch_state_dict())
    return net


def _loaders_of(context: Context) -> tuple[Any, Any]:
    part, parts = (int(context.node_config[key]) for key in ("partition-id", "num-partitions"))
    return loaders(str(context.run_config["data"]), part, parts, int(context.run_config["batch-size"]))
