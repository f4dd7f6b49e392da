"""The names of the files in a run folder.

```text
runs/NAME/
├── settings.toml             every setting, resolved; --config reads it back
├── environment.json          versions and machine
├── data.json                 what is public of the data: shape, classes, mean and deviation of the channels
├── dealt.json                how many examples of each label each node of a simulation has; not of private models
├── objects/                  code that was given as objects, from Python
├── events.jsonl              every transition, one JSON object a line
├── nodes.csv                 what each node did in each round
├── metrics.csv               one row a committed round
├── model.safetensors         the state after the latest round
├── best.safetensors          the state after the best evaluated round
├── models/                   the states after every k-th round, where rounds.keep_every = k
├── kept/                     whole checkpoints after these rounds, from which `fedlearn forget` trains again
├── checkpoint.json           what a stored round is made of, with the SHA-256 of each part and of itself
├── checkpoint/               what a resume needs: state, strategy memory, node states, history.jsonl
├── stop                      a request to stop, until the run has stopped
├── asked-sum                a secure sum that nodes were asked to unmask, until its round is committed
├── classes.json              results for each class, where the data have classes
├── statistics.json           number of records, mean and histogram of each column, where the model counts these
├── analysis.json             tables and curves of an analysis: coefficients, survival, a description of the records
├── contributions/            each client's change of each round, where contributions.keep is on
├── worth.json                what each client is worth, by `fedlearn worth`
├── forgotten.json            the certificate of `fedlearn forget`, in the folder of the run without the client
├── summary.json              results, when the run has ended
└── manifest.json             the checksums of all these, and of data and own code; for fedlearn verify
```
"""

from __future__ import annotations

import re

LOCK = ".lock"
STOP = "stop"
SETTINGS = "settings.toml"
ENVIRONMENT = "environment.json"
DATA = "data.json"
DEALT = "dealt.json"
EVENTS = "events.jsonl"
NODES = "nodes.csv"
TABLE = "metrics.csv"
MODEL = "model.safetensors"
BEST = "best.safetensors"
FROZEN = "frozen.safetensors"
MODELS = "models"  # the folder of the states that stay
WHOLE = "kept"  # the folder of whole checkpoints that stay
FORGOTTEN = "forgotten.json"
WORTH = "worth.json"
CHECKPOINT = "checkpoint.json"
PARTS = "checkpoint"  # the folder of what a resume needs
HISTORY = f"{PARTS}/history.jsonl"
ASKED_SUM = "asked-sum"
CLASSES = "classes.json"
STATISTICS = "statistics.json"
ANALYSIS = "analysis.json"
SUMMARY = "summary.json"
MANIFEST = "manifest.json"

STATE = re.compile(rf"{PARTS}/round-(\d{{6,}})\.state\.safetensors")
KEPT = re.compile(r"round-(\d{6,9})\.safetensors")  # within MODELS
KEPT_WHOLE = re.compile(r"round-(\d{6,9})")  # within WHOLE
NODE_STATES = re.compile(rf"{PARTS}/round-\d{{6,}}\.nodes")


def state_name(round_number: int) -> str:
    """Return the name of the file of the state after a round."""
    return f"{PARTS}/round-{round_number:06d}.state.safetensors"


def kept_name(round_number: int) -> str:
    """Return the name of the file of a state that stays in the run folder (``rounds.keep_every``).

    >>> kept_name(10)
    'models/round-000010.safetensors'
    """
    return f"{MODELS}/round-{round_number:06d}.safetensors"


def whole_name(round_number: int) -> str:
    """Return the name of the folder of a whole checkpoint that stays in the run folder."""
    return f"{WHOLE}/round-{round_number:06d}"


def contributions_name(round_number: int) -> str:
    """Return the name of the file of the changes of clients in a round; of round 0, of the state before round 1."""
    return f"contributions/round-{round_number:06d}.safetensors"


def memory_name(round_number: int) -> str:
    """Return the name of the file of what the strategy carries on from a round."""
    return f"{PARTS}/round-{round_number:06d}.memory.safetensors"


def nodes_name(round_number: int) -> str:
    """Return the name of the file of what the nodes keep, if it was begun after a round."""
    return f"{PARTS}/round-{round_number:06d}.nodes"
