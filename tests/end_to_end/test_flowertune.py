"""The setting of FlowerTune runs by its one command, with a small random model and made-up instructions."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import fedlearn
from experiments.algorithms.flowertune import TEMPLATE, adapted, annealed
from fedlearn.config import config_from, flat_from_file

transformers = pytest.importorskip("transformers", reason="transformers is not installed: pip install 'fedlearn[hf]'")
peft = pytest.importorskip("peft", reason="peft is not installed: pip install 'fedlearn[hf]'")
tokenizers = pytest.importorskip("tokenizers", reason="it comes with transformers")

pytestmark = pytest.mark.filterwarnings("ignore:.*is deprecated and will be removed in v6:FutureWarning")

ROOT = Path(__file__).parents[2]
PRESET = ROOT / "experiments" / "configs" / "flowertune.toml"
WORDS = (
    "<pad> </s> Below is an instruction that describes a task. Write response appropriately completes the request. "
    "### Instruction: Response: say please red green blue"
)


@pytest.fixture(scope="module")
def stub(tmp_path_factory):
    """A folder with a base, and a file of instructions."""
    folder = tmp_path_factory.mktemp("stub")
    inner = tokenizers.Tokenizer(
        tokenizers.models.WordLevel(
            {word: at for at, word in enumerate(dict.fromkeys(WORDS.split()))}, unk_token="<pad>"
        )
    )
    inner.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=inner, eos_token="</s>")
    tokenizer.save_pretrained(folder / "base")  # without a template and without padding, as those of many bases
    torch.manual_seed(1)
    small = transformers.MistralConfig(
        vocab_size=len(tokenizer), hidden_size=64, intermediate_size=64, num_hidden_layers=1, num_attention_heads=2,
        num_key_value_heads=1, max_position_embeddings=64, pad_token_id=None, bos_token_id=None, eos_token_id=1,
    )  # fmt: skip
    transformers.MistralForCausalLM(small).save_pretrained(folder / "base")
    colors = ["red", "green", "blue"]
    rows = [
        {"instruction": "say " + color, "input": "please" * (at % 2), "output": color}
        for at, color in enumerate(colors * 80)
    ]
    (folder / "rows.json").write_text(json.dumps(rows))
    return folder


def test_the_settings_are_those_of_the_leaderboard():
    config = config_from(flat_from_file(PRESET))
    assert (config.clients, config.rounds.cohort, config.rounds.total) == (20, 2, 200)
    assert (config.training.lr, config.training.batch_size, config.training.optimizer) == (5e-5, 16, "adamw")
    assert json.loads(config.model.options) == {"base": "mistralai/Mistral-7B-v0.3", "rank": 32, "alpha": 64}
    assert json.loads(config.training.options) == {"steps": 10}
    assert annealed(config.training, 200, 200) == pytest.approx(1e-6)


@pytest.mark.long
def test_one_command_runs_it(stub, tmp_path):
    given = {
        "model.options.base": stub / "base", "data.options.base": stub / "base", "training.options.steps": 2,
        "data.options.rows": stub / "rows.json", "data.options.length": 32, "training.micro_batch": 2,
        "training.lr": 0.01, "rounds.total": 2, "evaluation.every": 1, "engine.name": "inline",
    }  # fmt: skip
    settings = [word for name, value in given.items() for word in ("--set", f"{name}={value}")]
    command = [sys.executable, "-m", "fedlearn", "simulate", "--config", str(PRESET), "--out", str(tmp_path / "run")]
    done = subprocess.run([*command, "--quiet", *settings], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    run = fedlearn.load(tmp_path / "run")
    entries = 32 * ((64 + 64) + (64 + 32))  # of q and v
    assert run.summary["rounds"] == 2 and 4 * entries < run.summary["bytes_up"] / 4 < 4 * entries + 3_000 + 4 * 150
    assert run.history["loss"].iloc[-1] < run.history["loss"].iloc[0]
    steps = [json.loads(line) for line in (tmp_path / "run" / "events.jsonl").read_text().splitlines()]
    assert {each["examples"] for each in steps if each["event"] == "reported"} <= {9, 10, 11, 12}
    run.model().save_pretrained(tmp_path / "adapter")
    base = transformers.AutoModelForCausalLM.from_pretrained(stub / "base", dtype=torch.bfloat16)
    loaded = peft.PeftModel.from_pretrained(base, tmp_path / "adapter")
    tokens = torch.arange(12)[None]
    with torch.no_grad():
        assert torch.equal(loaded(tokens).logits, run.model().eval()(tokens).logits)
        assert not torch.equal(loaded(tokens).logits, adapted(base=str(stub / "base")).eval()(tokens).logits)


def test_a_base_without_a_template_gets_one(stub):
    tokenizer = transformers.AutoTokenizer.from_pretrained(stub / "base")
    assert not tokenizer.chat_template
    messages = [{"role": "user", "content": "say red"}, {"role": "assistant", "content": "red"}]
    text = tokenizer.apply_chat_template(messages, chat_template=TEMPLATE, tokenize=False)
    assert text.endswith("### Instruction:\nsay red\n\n### Response:\nred</s>")
