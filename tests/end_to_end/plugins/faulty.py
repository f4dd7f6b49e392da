"""A model whose nodes misbehave where FAULTS says so; in all else it is the cnn.

FAULTS holds words ``what:partition:round``, as ``exit:3:2 raise:5:2``, or the path of a file that does; ``evaluate``
instead of a partition means the evaluation on the server's test set. `hang`, `slow` and `slower` first make the file
that MARK names: whoever waits for it knows that the run is in the middle of that round.
"""

import os
import resource
import signal
import sys
import time
from functools import partial
from pathlib import Path

from client.learners.sgd import SGD
from fedlearn.models.networks.cnn import CNN
from fedlearn.models.torch.torch_model import TorchModel


def pause(seconds):
    if "MARK" in os.environ:
        Path(os.environ["MARK"]).touch()
    time.sleep(seconds)


def fail():
    raise RuntimeError("the disk is full\nand a second line")


def starve():
    resource.setrlimit(resource.RLIMIT_AS, (1 << 20, -1))


KINDS = {
    "exit": lambda: os._exit(7),
    "kill": lambda: os.kill(os.getpid(), signal.SIGKILL),
    "quit": lambda: sys.exit("no more"),
    "raise": fail,
    "starve": starve,
    "hang": lambda: pause(3600),
    "slow": lambda: pause(18),
    "slower": lambda: pause(36),
}


def misbehave(where, round_number):
    faults = os.environ.get("FAULTS", "")
    for fault in (Path(faults).read_text() if faults.startswith("/") else faults).split():
        kind, place, number = fault.split(":")
        if place == str(where) and number in (str(round_number), "*"):
            KINDS[kind]()


class FaultySGD(SGD):
    def fit(self, state, task):
        misbehave(task.partition_id, task.round_number)
        return super().fit(state, task)


class FaultyStackSGD(SGD):
    can_stack = True

    def optimizer(self, parameters, task):
        misbehave(task.partition_id, task.round_number)
        return super().optimizer(parameters, task)


class FaultyModel(TorchModel):
    learner = "faulty:FaultySGD"

    def evaluate(self, state, examples):
        misbehave("evaluate", "*")
        return super().evaluate(state, examples)


def model(spec):
    return FaultyModel(partial(CNN, spec), spec)


class FaultyStackModel(FaultyModel):
    learner = "faulty:FaultyStackSGD"


def stacked_model(spec):
    return FaultyStackModel(partial(CNN, spec), spec)
