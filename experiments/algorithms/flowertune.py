"""The setting of the FlowerTune leaderboard for general language, as data, model and local steps of one run.

    fedlearn simulate --config experiments/configs/flowertune.toml --set engine.device=cuda

It downloads a model and a set of instructions from the Hub. A folder with a model, and a JSON file of rows with
``instruction``, ``input`` and ``output``, stand in for them: ``model.options.base``, ``data.options``.

Source: the settings of ``flwr new @flwrlabs/flowertune-generalnlp``, whose base has 4 bits; here it has bfloat16.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from math import cos, pi
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import bfloat16, nn

from fedlearn.config.tables.learning_settings import TrainingSettings
from fedlearn.data import Dataset, from_chats
from fedlearn.extend import SGD, LocalTask, RunConfig, TorchModel

LOWEST = 1e-6  # learning rate of the last round
TEMPLATE = (  # of a base without one
    "{% for message in messages %}{% if message.role == 'user' %}Below is an instruction that describes a task. Write "
    "a response that appropriately completes the request.\n\n### Instruction:\n{{ message.content }}\n\n### Response:\n"
    "{% else %}{{ message.content }}{{ eos_token }}{% endif %}{% endfor %}"
)


def instructions(data_dir: str, *, base: str, rows: str = "vicgalle/alpaca-gpt4", length: int = 512) -> Dataset:
    """Return instructions and answers as tokens of a base; `rows` is a name of the Hub, or a JSON file."""
    from datasets import load_dataset
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(base)
    tokenizer.chat_template = tokenizer.chat_template or TEMPLATE
    tokenizer.pad_token = tokenizer.pad_token or tokenizer.eos_token
    is_file = rows.endswith(".json")
    found = load_dataset("json", data_files=rows, split="train") if is_file else load_dataset(rows, split="train")
    chats = [(f"{row['instruction']}\n{row['input']}".strip(), row["output"]) for row in found]
    return from_chats(chats, tokenizer, length=length, name="instructions")


def adapted(*, base: str, rank: int = 32, alpha: int = 64) -> nn.Module:
    """Return a causal language model in bfloat16 with adapters of float32, which computes activations again."""
    import peft
    import transformers

    model = transformers.AutoModelForCausalLM.from_pretrained(base, dtype=bfloat16)
    model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    config = peft.LoraConfig(r=rank, lora_alpha=alpha, lora_dropout=0.075, task_type="CAUSAL_LM")
    made: nn.Module = peft.get_peft_model(model, config)
    return made


def annealed(training: TrainingSettings, round_number: int, rounds: int) -> float:
    """Return half a cosine from ``training.lr`` to `LOWEST`.

    >>> [f"{annealed(TrainingSettings(lr=5e-5), number, 200):.1e}" for number in (1, 100, 200)]
    ['5.0e-05', '2.6e-05', '1.0e-06']
    """
    return LOWEST + (training.lr - LOWEST) * (1 + cos(pi * round_number / rounds)) / 2


class FewSteps(SGD):
    """Takes the first steps of a pass alone; each round draws another order.

    Parameters
    ----------
    steps : int, default=10
        The most steps of a client in a round.
    """

    def __init__(self, model: TorchModel, config: RunConfig, *, steps: int = 10, **options: Any) -> None:
        super().__init__(model, config, **options)
        self.steps = steps

    def batches(self, task: LocalTask, progress: Any) -> Iterator[NDArray[np.integer[Any]]]:
        """Yield the rows of the first steps."""
        yield from islice(super().batches(task, progress), self.steps)
