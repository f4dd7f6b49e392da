"""Models of the real `transformers` and `peft`, with random weights: one round is that of a loop written by hand.

The loop computes the loss by the model itself, from labels as `transformers` takes them; fedlearn computes it from the
logits, and shifts the labels of language models.
"""

from __future__ import annotations

from copy import deepcopy

import numpy as np
import pytest
import torch

import fedlearn
from fedlearn.algorithms.adapters.flexlora import FlexLoRA
from fedlearn.algorithms.adapters.flora import FLoRA
from fedlearn.data import from_arrays, from_chats

transformers = pytest.importorskip("transformers", reason="transformers is not installed: pip install 'fedlearn[hf]'")
peft = pytest.importorskip("peft", reason="peft is not installed: pip install 'fedlearn[hf]'")

VOCABULARY, LENGTH, CLASSES, CLIENTS, LR = 40, 8, 3, 3, 0.1
SMALL = {
    "vocab_size": VOCABULARY, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2,
    "intermediate_size": 24, "max_position_embeddings": 16, "hidden_dropout_prob": 0.0, "num_labels": CLASSES,
    "attention_probs_dropout_prob": 0.0, "classifier_dropout": 0.0, "pad_token_id": 0, "attention_dropout": 0.0,
}  # fmt: skip
OF_GPT2 = {
    "vocab_size": VOCABULARY, "n_positions": 16, "n_embd": 16, "n_layer": 2, "n_head": 2, "resid_pdrop": 0.0,
    "embd_pdrop": 0.0, "attn_pdrop": 0.0, "pad_token_id": 0, "num_labels": CLASSES, "bos_token_id": 1,
    "eos_token_id": 2,
}  # fmt: skip
OF_DISTILBERT = {
    "vocab_size": VOCABULARY, "dim": 16, "hidden_dim": 24, "n_layers": 2, "n_heads": 2, "dropout": 0.0,
    "attention_dropout": 0.0, "seq_classif_dropout": 0.0, "max_position_embeddings": 16, "num_labels": CLASSES,
}  # fmt: skip
OF_PICTURES = {
    "image_size": 8, "patch_size": 4, "num_channels": 3, "hidden_size": 16, "num_hidden_layers": 2,
    "num_attention_heads": 2, "intermediate_size": 24, "hidden_dropout_prob": 0.0, "num_labels": CLASSES,
    "attention_probs_dropout_prob": 0.0,
}  # fmt: skip
MOE = {"num_local_experts": 3, "num_experts_per_tok": 2, "num_key_value_heads": 1}
TABLE = [  # the class without its ending, the task, settings of its configuration
    ("GPT2LMHeadModel", "GPT2Config", "next token", OF_GPT2),
    ("OPTForCausalLM", "OPTConfig", "next token",
     {**SMALL, "ffn_dim": 24, "dropout": 0.0, "word_embed_proj_dim": 16}),
    ("LlamaForCausalLM", "LlamaConfig", "next token", SMALL),
    ("MistralForCausalLM", "MistralConfig", "next token", {**SMALL, "num_key_value_heads": 1}),
    ("Qwen2ForCausalLM", "Qwen2Config", "next token", {**SMALL, "num_key_value_heads": 1}),
    ("GPTNeoXForCausalLM", "GPTNeoXConfig", "next token", {**SMALL, "hidden_dropout": 0.0}),
    ("MixtralForCausalLM", "MixtralConfig", "next token", {**SMALL, **MOE}),
    ("BertForSequenceClassification", "BertConfig", "text", SMALL),
    ("DistilBertForSequenceClassification", "DistilBertConfig", "text", OF_DISTILBERT),
    ("RobertaForSequenceClassification", "RobertaConfig", "text", {**SMALL, "max_position_embeddings": 24}),
    ("AlbertForSequenceClassification", "AlbertConfig", "text",
     {**SMALL, "embedding_size": 8, "classifier_dropout_prob": 0.0}),
    ("ElectraForSequenceClassification", "ElectraConfig", "text", {**SMALL, "embedding_size": 8}),
    ("GPT2ForSequenceClassification", "GPT2Config", "text", OF_GPT2),
    ("LlamaForSequenceClassification", "LlamaConfig", "text", SMALL),
    ("BertForTokenClassification", "BertConfig", "places", SMALL),
    ("DistilBertForTokenClassification", "DistilBertConfig", "places", OF_DISTILBERT),
    ("RobertaForTokenClassification", "RobertaConfig", "places", {**SMALL, "max_position_embeddings": 24}),
    ("BertForMaskedLM", "BertConfig", "masked", SMALL),
    ("ViTForImageClassification", "ViTConfig", "pictures", OF_PICTURES),
    ("ConvNextForImageClassification", "ConvNextConfig", "pictures",
     {"num_channels": 3, "patch_size": 2, "num_stages": 2, "hidden_sizes": [8, 16], "depths": [1, 1],
      "num_labels": CLASSES}),
]  # fmt: skip


def model_of(kind, config, settings):
    torch.manual_seed(1)
    return getattr(transformers, kind)(getattr(transformers, config)(**settings)).eval()


def examples_of(task):
    """Return the data of each client and of the test, as `transformers` takes them: by name, labels not shifted."""
    rng, found = np.random.default_rng(5), []
    for count in (4, 6, 8, 6):
        if task == "pictures":
            pixels = rng.normal(size=(count, 3, 8, 8)).astype("float32")
            found.append({"pixel_values": pixels, "labels": rng.integers(0, CLASSES, count)})
            continue
        mask = (np.arange(LENGTH) < rng.integers(4, LENGTH + 1, (count, 1))).astype(int)
        tokens = np.where(mask, rng.integers(3, VOCABULARY, (count, LENGTH)), 0)
        several = {"places": (CLASSES, tokens), "masked": (VOCABULARY, tokens), "next token": (VOCABULARY, tokens)}
        if task == "text":
            labels = rng.integers(0, CLASSES, count)
        elif task == "next token":
            labels = np.where(mask & (np.arange(LENGTH) > 1), tokens, -100)  # of a prompt of two tokens none counts
        else:
            labels = np.where(mask, rng.integers(0, several[task][0], tokens.shape), -100)
        found.append({"input_ids": tokens, "attention_mask": mask, "labels": labels})
    return found


def data_of(parts, test, task):
    if task == "next token":
        encoded = [transformers.BatchEncoding(each) for each in (*parts, test)]
        return {str(place): (each, encoded[-1]) for place, each in enumerate(encoded[:-1])}
    train = {name: np.concatenate([each[name] for each in parts]) for name in test}
    groups = np.repeat(np.arange(CLIENTS), [len(each["labels"]) for each in parts])
    about = {"groups": groups, "groups_test": np.arange(len(test["labels"])) % CLIENTS}
    if task == "pictures":
        X, X_test = (each["pixel_values"].transpose(0, 2, 3, 1) for each in (train, test))
        return from_arrays(X, train["labels"], X_test, test["labels"], mean=0, std=1, **about)
    return from_arrays(
        train["input_ids"], train["labels"], test["input_ids"], test["labels"], mask=train["attention_mask"],
        mask_test=test["attention_mask"], vocabulary=VOCABULARY, classes=VOCABULARY if task == "masked" else CLASSES,
        **about,
    )  # fmt: skip


def by_hand(model, parts):
    """Return the model after one round: one step of each client on all its examples, and the mean of the clients."""
    mean, total = {}, sum(len(part["labels"]) for part in parts)
    for part in parts:
        own = deepcopy(model).train()
        batch = {name: torch.from_numpy(array) for name, array in part.items()}
        own(**batch).loss.backward()
        for name, parameter in own.named_parameters():
            if parameter.requires_grad and parameter.grad is not None:
                with torch.no_grad():
                    parameter -= LR * parameter.grad
            mean[name] = mean.get(name, 0) + parameter.detach().double() * len(part["labels"]) / total
    after = deepcopy(model)
    after.load_state_dict({name: array.float() for name, array in mean.items()}, strict=False)
    return after.eval()


def ran(model, task, *, settings=None, **further):
    *parts, test = examples_of(task)
    settings = {"training.momentum": 0.0, **(settings or {})}
    return fedlearn.run(
        clients=CLIENTS, data=data_of(parts, test, task), model=model, rounds=1, cohort=0, batch_size=8, seed=3,
        partition="natural", engine="inline", progress=False, settings=settings,
        **{"local_epochs": 1, "lr": LR, **further},
    )  # fmt: skip


def assert_same(run, wanted):
    found, names = run.model(), dict(wanted.named_parameters())
    assert type(found) is type(wanted)
    for name, parameter in found.named_parameters():
        differ = torch.max(torch.abs(parameter - names[name])).item()
        assert differ < 1e-5, f"{name}: {differ}"


@pytest.mark.parametrize(
    ("kind", "config", "task", "settings"),
    [pytest.param(*row, id=row[0], marks=[pytest.mark.long] * (place > 0)) for place, row in enumerate(TABLE)],
)
def test_one_round_is_that_of_a_loop_by_hand(kind, config, task, settings):
    model, (*parts, test) = model_of(kind, config, settings), examples_of(task)
    run, wanted = ran(model, task), by_hand(model, parts)
    assert_same(run, wanted)
    batch = {name: torch.from_numpy(array) for name, array in test.items()}
    with torch.no_grad():
        loss = wanted(**batch).loss.item()
    assert run.summary["loss"] == pytest.approx(loss, abs=1e-5)


def adapted(base, rank):
    kind = {"target_modules": ["c_attn"], "fan_in_fan_out": True, "task_type": "CAUSAL_LM"}
    return peft.get_peft_model(deepcopy(base), peft.LoraConfig(r=rank, lora_alpha=8, **kind))


@pytest.mark.long
def test_adapters_are_loaded_by_peft_alone(tmp_path):
    base, (*parts, test) = model_of(*TABLE[0][:2], OF_GPT2), examples_of("next token")
    model = adapted(base, 4)
    run = ran(model, "next token")
    assert_same(run, by_hand(model, parts))
    run.model().save_pretrained(tmp_path)
    loaded = peft.PeftModel.from_pretrained(deepcopy(base), tmp_path).eval()
    batch = {name: torch.from_numpy(array) for name, array in test.items()}
    with torch.no_grad():
        assert torch.equal(loaded(**batch).logits, run.model().eval()(**batch).logits)
        assert not torch.equal(loaded(**batch).logits, base(**batch).logits)
    arrays, entries = 4, 2 * 4 * (16 + 48)  # two layers of 16 to 48, of rank 4
    assert run.summary["bytes_up"] / CLIENTS < 4 * entries + 150 * arrays + 3_000


@pytest.mark.long
@pytest.mark.parametrize(("rule", "kind", "rank"), [("flexlora", FlexLoRA, 16), ("flora", FLoRA, 20)])
def test_the_merged_model_is_the_weighted_mean_of_merged_models(rule, kind, rank, monkeypatch):
    base, reported, rule_of = model_of(*TABLE[0][:2], OF_GPT2), [], kind.combined

    def combined(self, sent, products, round_number):
        reported.append(products)
        return rule_of(self, sent, products, round_number)

    monkeypatch.setattr(kind, "combined", combined)
    options = {"strategy.options.ranks": [2, 4, 3]}
    run = ran(adapted(base, rank), "next token", strategy=rule, lr=1.0, local_epochs=3, settings=options)
    merged = run.model().merge_and_unload().state_dict()
    assert [share for share, _ in reported[0]] == pytest.approx([4 / 18, 6 / 18, 8 / 18])
    assert [np.linalg.matrix_rank(each.up @ each.down) for _, each in reported[0]] == [2, 4, 3]
    for layer, products in enumerate(reported):
        name = f"transformer.h.{layer}.attn.c_attn.weight"  # of Conv1D: (in, out)
        mean = sum(share * 8 / rank * (each.up @ each.down).T for share, each in products)
        np.testing.assert_allclose(merged[name] - base.state_dict()[name], mean, atol=5e-8)
        assert np.abs(mean).max() > 1e-4
    assert run.history["product_error"].iloc[-1] < 1e-6


CHATS = [("a b", "c d e"), ("c", "a"), ("b b a", "d"), ("e", "e e"), ("d c", "b a"), ("a", "b")]
TEMPLATE = (
    "{% for m in messages %}<{{ m.role }}> {{ m.content }} <end> {% endfor %}"
    "{% if add_generation_prompt %}<assistant> {% endif %}"
)


def tokenizer_of_words():
    tokenizers = pytest.importorskip("tokenizers", reason="it comes with transformers")
    words = {w: n for n, w in enumerate(["<pad>", "<user>", "<assistant>", "<end>", *"abcde"])}
    made = tokenizers.Tokenizer(tokenizers.models.WordLevel(words, unk_token="<pad>"))
    made.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    found = transformers.PreTrainedTokenizerFast(tokenizer_object=made, pad_token="<pad>", eos_token="<end>")
    found.chat_template = TEMPLATE
    return found


@pytest.mark.long
def test_chats_are_learned_as_by_a_loop_with_the_prompt_masked():
    tokenizer = tokenizer_of_words()
    data = from_chats(CHATS, tokenizer, length=12, chats_test=CHATS[:2], groups=[0, 0, 1, 1, 2, 2], groups_test=[0, 1])
    model = model_of("GPT2LMHeadModel", "GPT2Config", {**OF_GPT2, "vocab_size": len(tokenizer)})
    run = fedlearn.run(
        clients=CLIENTS, data=data, model=model, rounds=1, cohort=0, batch_size=8, seed=3, partition="natural",
        engine="inline", progress=False, settings={"training.momentum": 0.0}, local_epochs=1, lr=LR,
    )  # fmt: skip
    parts = []
    for chats in (CHATS[:2], CHATS[2:4], CHATS[4:], CHATS[:2]):
        texts = [f"<user> {prompt} <end> <assistant> {answer} <end>" for prompt, answer in chats]
        batch = dict(tokenizer(texts, padding="max_length", max_length=12, return_tensors="np"))
        labels = np.full_like(batch["input_ids"], -100)
        for row, (prompt, answer) in enumerate(chats):
            begin = 3 + len(prompt.split())
            learned = slice(begin, begin + len(answer.split()) + 1)  # the answer and its mark
            labels[row, learned] = batch["input_ids"][row, learned]
        parts.append({name: batch[name] for name in ("input_ids", "attention_mask")} | {"labels": labels})
    *parts, test = parts
    wanted = by_hand(model, parts)
    assert_same(run, wanted)
    with torch.no_grad():
        loss = wanted(**{name: torch.from_numpy(array) for name, array in test.items()}).loss.item()
    assert run.summary["loss"] == pytest.approx(loss, abs=1e-5)


@pytest.mark.long
def test_adapters_are_trained_by_a_few_numbers_a_round():
    base = model_of(*TABLE[0][:2], OF_GPT2)
    run = ran(adapted(base, 4), "next token", strategy="decomfl", lr=0.01)
    found, first = dict(run.model().named_parameters()), dict(adapted(base, 4).named_parameters())
    moved = {name for name, each in found.items() if not torch.equal(each, first[name])}
    assert moved == {name for name in first if "lora_" in name}
    assert run.summary["bytes_up"] / CLIENTS < 1_000


@pytest.mark.long
def test_a_module_that_computes_activations_again_is_trained_alike():
    plain, frugal = (model_of("LlamaForCausalLM", "LlamaConfig", SMALL) for _ in range(2))
    frugal.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    assert_same(ran(frugal, "next token"), by_hand(plain, examples_of("next token")[:CLIENTS]))
