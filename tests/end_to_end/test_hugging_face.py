"""Models of the real `transformers` and `peft`, with random weights: one round is that of a loop written by hand.

The loop computes the loss by the model itself, from labels as `transformers` takes them; fedlearn computes it from the
logits, and shifts the labels of language models.
"""

from __future__ import annotations

import os
import subprocess
import sys
from copy import deepcopy
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

import fedlearn
from fedlearn.algorithms.adapters.flexlora import FlexLoRA
from fedlearn.algorithms.adapters.flora import FLoRA
from fedlearn.core.errors import UsageError
from fedlearn.data import from_arrays, from_chats

transformers = pytest.importorskip("transformers", reason="transformers is not installed: pip install 'fedlearn[hf]'")
peft = pytest.importorskip("peft", reason="peft is not installed: pip install 'fedlearn[hf]'")

pytestmark = pytest.mark.filterwarnings("ignore:.*is deprecated and will be removed in v6:FutureWarning")  # of peft

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
OF_T5 = {
    "vocab_size": VOCABULARY, "d_model": 16, "d_kv": 8, "d_ff": 24, "num_layers": 2, "num_heads": 2,
    "dropout_rate": 0.0, "decoder_start_token_id": 0, "pad_token_id": 0,
}  # fmt: skip
OF_BART = {
    "vocab_size": VOCABULARY, "d_model": 16, "encoder_layers": 2, "decoder_layers": 2, "encoder_ffn_dim": 24,
    "decoder_ffn_dim": 24, "encoder_attention_heads": 2, "decoder_attention_heads": 2, "max_position_embeddings": 16,
    "dropout": 0.0, "attention_dropout": 0.0, "activation_dropout": 0.0, "decoder_start_token_id": 2,
    "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "forced_eos_token_id": None,
}  # fmt: skip
OF_SOUNDS = {
    "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 24, "conv_dim": (8, 8),
    "conv_stride": (5, 2), "conv_kernel": (10, 3), "num_feat_extract_layers": 2, "num_conv_pos_embeddings": 4,
    "num_conv_pos_embedding_groups": 2, "hidden_dropout": 0.0, "activation_dropout": 0.0, "attention_dropout": 0.0,
    "feat_proj_dropout": 0.0, "final_dropout": 0.0, "layerdrop": 0.0, "mask_time_prob": 0.0,
    "apply_spec_augment": False, "classifier_proj_size": 8, "num_labels": CLASSES,
}  # fmt: skip
MOE = {"num_local_experts": 3, "num_experts_per_tok": 2, "num_key_value_heads": 1}
TABLE = [  # the class, its configuration, the task, settings of the configuration, and what is special
    ("GPT2LMHeadModel", "GPT2Config", "next token", OF_GPT2, "decoder; tied embeddings"),
    ("OPTForCausalLM", "OPTConfig", "next token",
     {**SMALL, "ffn_dim": 24, "dropout": 0.0, "word_embed_proj_dim": 16}, "decoder; tied embeddings"),
    ("LlamaForCausalLM", "LlamaConfig", "next token", SMALL, "decoder"),
    ("MistralForCausalLM", "MistralConfig", "next token", {**SMALL, "num_key_value_heads": 1}, "decoder"),
    ("GPTNeoXForCausalLM", "GPTNeoXConfig", "next token", {**SMALL, "hidden_dropout": 0.0}, "decoder"),
    ("MixtralForCausalLM", "MixtralConfig", "next token", {**SMALL, **MOE}, "decoder; mixture of experts"),
    ("BertForSequenceClassification", "BertConfig", "text", SMALL, "encoder; buffers of whole numbers"),
    ("DistilBertForSequenceClassification", "DistilBertConfig", "text", OF_DISTILBERT, "encoder"),
    ("AlbertForSequenceClassification", "AlbertConfig", "text",
     {**SMALL, "embedding_size": 8, "classifier_dropout_prob": 0.0}, "encoder; layers that share weights"),
    ("ElectraForSequenceClassification", "ElectraConfig", "text", {**SMALL, "embedding_size": 8}, "encoder"),
    ("LlamaForSequenceClassification", "LlamaConfig", "text", SMALL, "decoder"),
    ("RobertaForTokenClassification", "RobertaConfig", "places", {**SMALL, "max_position_embeddings": 24}, "encoder"),
    ("BertForMaskedLM", "BertConfig", "masked", SMALL, "encoder; tied embeddings"),
    ("T5ForConditionalGeneration", "T5Config", "answer", OF_T5, "encoder and decoder; tied embeddings"),
    ("BartForConditionalGeneration", "BartConfig", "answer", OF_BART, "encoder and decoder; tied embeddings"),
    ("MBartForConditionalGeneration", "MBartConfig", "answer", OF_BART, "encoder and decoder; tied embeddings"),
    ("ViTForImageClassification", "ViTConfig", "pictures", OF_PICTURES, "vision"),
    ("ConvNextForImageClassification", "ConvNextConfig", "pictures",
     {"num_channels": 3, "patch_size": 2, "num_stages": 2, "hidden_sizes": [8, 16], "depths": [1, 1],
      "num_labels": CLASSES}, "vision"),
    ("ResNetForImageClassification", "ResNetConfig", "pictures",
     {"num_channels": 3, "embedding_size": 8, "hidden_sizes": [8, 16], "depths": [1, 1], "layer_type": "basic",
      "num_labels": CLASSES}, "vision; buffers of whole numbers"),
    ("Wav2Vec2ForSequenceClassification", "Wav2Vec2Config", "sounds", OF_SOUNDS, "audio"),
    ("ASTForAudioClassification", "ASTConfig", "spectra",
     {**OF_PICTURES, "patch_size": 4, "max_length": 16, "num_mel_bins": 8, "time_stride": 4, "frequency_stride": 4},
     "audio"),
]  # fmt: skip


LEARNS = {
    "next token": "the next token", "text": "classes of texts", "places": "classes of tokens",
    "masked": "tokens at some places", "answer": "answers", "pictures": "classes of pictures",
    "sounds": "classes of sounds", "spectra": "classes of spectrograms",
}  # fmt: skip


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
        if task in ("sounds", "spectra"):
            heard = rng.normal(size=(count, 400) if task == "sounds" else (count, 16, 8)).astype("float32")
            found.append({"input_values": heard, "labels": rng.integers(0, CLASSES, count)})
            continue
        mask = (np.arange(LENGTH) < rng.integers(4, LENGTH + 1, (count, 1))).astype(int)
        tokens = np.where(mask, rng.integers(3, VOCABULARY, (count, LENGTH)), 0)
        several = {"places": (CLASSES, tokens), "masked": (VOCABULARY, tokens), "next token": (VOCABULARY, tokens)}
        if task == "text":
            labels = rng.integers(0, CLASSES, count)
        elif task == "answer":
            long = rng.integers(3, VOCABULARY, (count, LENGTH - 2))
            labels = np.where(np.arange(LENGTH - 2) < rng.integers(2, LENGTH - 1, (count, 1)), long, -100)
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
    if "input_values" in test:
        return from_arrays(
            train["input_values"], train["labels"], test["input_values"], test["labels"], mean=0, std=1, **about
        )
    return from_arrays(
        train["input_ids"], train["labels"], test["input_ids"], test["labels"], mask=train["attention_mask"],
        mask_test=test["attention_mask"], vocabulary=VOCABULARY,
        classes=VOCABULARY if task in ("masked", "answer") else CLASSES, **about,
    )  # fmt: skip


def by_hand(model, parts):
    """Return the model after one round: one step of each client on all its examples, and the mean of the clients."""
    mean, total = {}, sum(len(part["labels"]) for part in parts)
    for part in parts:
        own = deepcopy(model).train()
        batch = {name: torch.from_numpy(array) for name, array in part.items()}
        own(**batch).loss.backward()
        for parameter in own.parameters():
            if parameter.requires_grad and parameter.grad is not None:
                with torch.no_grad():
                    parameter -= LR * parameter.grad
        for name, each in (*own.named_parameters(), *own.named_buffers()):
            if each.is_floating_point():
                mean[name] = mean.get(name, 0) + each.detach().double() * len(part["labels"]) / total
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
        differ = (parameter - names[name]).abs().max() / names[name].abs().max().clamp(min=1)
        assert differ.item() < 1e-5, f"{name}: {differ.item()}"


@pytest.mark.parametrize(
    ("kind", "config", "task", "settings", "about"),
    [pytest.param(*row, id=row[0], marks=[pytest.mark.long] * (place > 0)) for place, row in enumerate(TABLE)],
)
def test_one_round_is_that_of_a_loop_by_hand(kind, config, task, settings, about):
    model, (*parts, test) = model_of(kind, config, settings), examples_of(task)
    making = partial(model_of, kind, config, settings)  # a module with a weight norm cannot be pickled
    run, wanted = ran(making if task == "sounds" else model, task), by_hand(model, parts)
    assert_same(run, wanted)
    batch = {name: torch.from_numpy(array) for name, array in test.items()}
    with torch.no_grad():
        loss = wanted(**batch).loss.item()
    assert run.summary["loss"] == pytest.approx(loss, abs=1e-5)


def test_the_page_has_these_classes():
    page = (Path(__file__).parents[2] / "docs/howto/transformers.md").read_text()
    for kind, _, task, _, about in TABLE:
        assert f"| `{kind}` | {about} | {LEARNS[task]} |\n" in page


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
def test_adapters_of_an_encoder_and_a_decoder_are_trained_as_by_a_loop():
    base = model_of("T5ForConditionalGeneration", "T5Config", OF_T5)
    made = peft.LoraConfig(r=4, target_modules=["q", "v"], task_type="SEQ_2_SEQ_LM")
    torch.manual_seed(2)
    model, (*parts, _) = peft.get_peft_model(base, made), examples_of("answer")
    run = ran(model, "answer")
    assert_same(run, by_hand(model, parts))
    with pytest.raises(UsageError, match=r"needs the targets.*generate"):
        run.predict(parts[0]["input_ids"])


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


@pytest.mark.long
def test_adapters_of_float32_are_trained_on_a_base_in_bfloat16(tmp_path):
    def made():
        base = model_of("LlamaForCausalLM", "LlamaConfig", SMALL).to(torch.bfloat16)
        torch.manual_seed(3)
        return peft.get_peft_model(base, peft.LoraConfig(r=4, target_modules=["q_proj", "v_proj"]))

    model, (*parts, _) = made(), examples_of("next token")
    assert {each.dtype for each in model.parameters() if each.requires_grad} == {torch.float32}
    run, wanted = ran(made, "next token"), by_hand(model, parts)
    assert_same(run, wanted)
    moved = dict(model.named_parameters())
    assert max((each - moved[name]).abs().max() for name, each in run.model().named_parameters()) > 1e-3
    assert {each.dtype for each in run.model().parameters() if not each.requires_grad} <= {torch.bfloat16}
    run.model().save_pretrained(tmp_path)
    base = model_of("LlamaForCausalLM", "LlamaConfig", SMALL).to(torch.bfloat16)
    loaded = peft.PeftModel.from_pretrained(base, tmp_path).eval()
    tokens = torch.from_numpy(parts[0]["input_ids"])
    with torch.no_grad():
        assert torch.equal(loaded(tokens).logits, run.model().eval()(tokens).logits)


@pytest.mark.long
@pytest.mark.parametrize("size", [1, 3])
def test_gradients_that_are_accumulated_are_those_of_the_whole_batch(size):
    """With labels of -100: each part weighs as many tokens as count in it, which a mean of means does not."""
    model, (*parts, _) = model_of(*TABLE[0][:2], OF_GPT2), examples_of("next token")
    assert_same(ran(model, "next token", settings={"training.micro_batch": size}), by_hand(model, parts))


@pytest.mark.long
def test_groups_without_decay_are_those_of_the_trainer():
    model, (*parts, _) = model_of("BertForSequenceClassification", "BertConfig", SMALL), examples_of("text")
    settings = {
        "training.weight_decay": 0.5,
        "training.decayed": ["!norm", "!*.bias"],
        "training.options": {"eps": 1.0},
    }
    run = ran(model, "text", optimizer="adamw", settings=settings)
    decayed = transformers.Trainer.get_decay_parameter_names(SimpleNamespace(), model)
    mean, total = {}, sum(len(part["labels"]) for part in parts)
    for part in parts:
        own = deepcopy(model).train()
        groups = [
            {"params": [each for name, each in own.named_parameters() if name in decayed], "weight_decay": 0.5},
            {"params": [each for name, each in own.named_parameters() if name not in decayed], "weight_decay": 0.0},
        ]
        optimizer = torch.optim.AdamW(groups, lr=LR, eps=1.0)
        own(**{name: torch.from_numpy(array) for name, array in part.items()}).loss.backward()
        optimizer.step()
        for name, each in own.named_parameters():
            mean[name] = mean.get(name, 0) + each.detach().double() * len(part["labels"]) / total
    wanted = deepcopy(model)
    wanted.load_state_dict({name: array.float() for name, array in mean.items()}, strict=False)
    assert_same(run, wanted)


def exact_match(module, inputs, targets, attention_mask):
    """Say of each chat whether the module writes its answer, token by token."""
    found = []
    for tokens, wanted, mask in zip(inputs, targets, attention_mask, strict=True):
        begin, answer = int((wanted != -100).nonzero()[0]) + 1, wanted[wanted != -100]
        prompt = {"input_ids": tokens[None, :begin], "attention_mask": mask[None, :begin]}
        made = module.generate(**prompt, max_new_tokens=len(answer), do_sample=False)
        found.append(torch.equal(made[0, begin:], answer))
    return found


@pytest.mark.long
def test_perplexity_answers_and_tokens_are_measured():
    tokenizer, groups = tokenizer_of_words(), [0, 0, 1, 1, 2, 2]
    data = from_chats(CHATS, tokenizer, length=12, chats_test=CHATS, groups=groups, groups_test=groups)
    model = model_of("GPT2LMHeadModel", "GPT2Config", {**OF_GPT2, "vocab_size": len(tokenizer)})
    run = fedlearn.run(
        clients=CLIENTS, data=data, model=model, rounds=15, cohort=0, batch_size=2, seed=2, partition="natural",
        engine="inline", progress=False, local_epochs=4, lr=3e-3, optimizer="adamw", scores=[exact_match],
        settings={"evaluation.beside": "alone", "evaluation.nodes": CLIENTS},
    )  # fmt: skip
    final, shares = run.model().eval(), run.history["exact_match"]
    tokens, targets = (torch.as_tensor(each) for each in (data.test.inputs.astype(int), data.test.targets.copy()))
    mask = (tokens >= 0).long()
    tokens = tokens.where(tokens >= 0, -1 - tokens)
    right = exact_match(final, tokens, targets, mask)
    assert shares.iloc[0] == 0 and shares.iloc[-1] == pytest.approx(np.mean(right), abs=1e-6) and any(right)
    with torch.no_grad():
        logits = final(tokens, attention_mask=mask).logits
    loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten()).item()
    assert run.summary["perplexity"] == pytest.approx(np.exp(loss), rel=1e-4)
    assert (run.history["tokens"] == 4 * int(mask.sum())).all()  # four passes; the training chats are those of the test
    assert run.summary["tokens"] == 15 * 4 * int(mask.sum()) and run.summary["tokens_per_second"] > 0
    assert run.summary["memory_peak_bytes"] > 50e6
    assert any(name.startswith("exact_match_gain") or name.startswith("exact_match_losing") for name in run.summary)


NAMED = """
import sys
sys.path[:0] = [{folder!r}]
import test_hugging_face as these
from fedlearn.plugins.objects import reference_to
print(reference_to(these.adapted(these.model_of(*these.TABLE[0][:2], these.OF_GPT2), 4)))
"""


@pytest.mark.long
def test_a_model_made_anew_in_another_process_has_the_same_name():
    program = NAMED.format(folder=str(Path(__file__).parent))
    names = {
        subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, check=True,
            env={**os.environ, "PYTHONHASHSEED": str(seed)},
        ).stdout
        for seed in (1, 2)
    }  # fmt: skip
    assert len(names) == 1
