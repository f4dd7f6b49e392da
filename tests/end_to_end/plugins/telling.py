"""The model `faulty:model`, whose nodes write down which state they were told in which round, in the file TOLD.

Two states of one round would be two noises of one question.
"""

import os
from hashlib import sha256
from pathlib import Path

from faulty import CNN, FaultyModel, FaultySGD, partial

from fedlearn.core.state_files import pack_state


class TellingSGD(FaultySGD):
    def fit(self, state, task):
        with Path(os.environ["TOLD"]).open("a") as file:
            file.write(f"{task.round_number} {sha256(pack_state(state)).hexdigest()}\n")
        return super().fit(state, task)


class TellingModel(FaultyModel):
    learner = "telling:TellingSGD"


def model(spec):
    return TellingModel(partial(CNN, spec), spec)
