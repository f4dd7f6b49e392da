"""Words that people look for, and the page that the site's search is to show first for each of them.

The search of Sphinx ranks entries of the index before titles, and titles before words of the text. So "gpu" finds the
page on installing before a page that mentions a GPU.
"""

from __future__ import annotations

import re

from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.errors import ExtensionError

WORDS = {
    "howto/install": ["install", "gpu", "install gpu", "cuda", "extras", "requirements"],
    "howto/offline": ["offline", "install offline", "air gap"],
    "howto/troubleshooting": ["troubleshooting", "error", "error message", "exit code"],
    "howto/faq": ["faq", "questions"],
    "howto/own_data": ["own data", "csv", "parquet", "hugging face"],
    "howto/own_model": ["own model", "custom model"],
    "howto/own_training": ["own loss", "custom loss", "own optimizer"],
    "howto/own_algorithm": ["own algorithm", "custom algorithm"],
    "howto/own_metric": ["metric", "own metric"],
    "howto/partitions": ["partition", "non-iid", "dirichlet", "heterogeneity"],
    "howto/what_is_sent": ["personalization", "lora", "adapters"],
    "howto/seeds_and_scalars": ["decomfl", "fedkseed", "mezo", "zeroth-order", "fine-tuning"],
    "tutorials/language_model": ["language model", "llm", "peft", "flowertune", "chat"],
    "howto/transformers": ["transformers", "gradient accumulation", "weight decay", "warm-up"],
    "howto/adapters": ["lora", "flora", "fedit", "fine-tuning"],
    "howto/send_less": ["compression", "quantization", "sparsification"],
    "howto/attacks": ["attack", "poisoning attack", "byzantine"],
    "howto/bad_nodes": ["robust aggregation", "defence"],
    "howto/secure_sums": ["secure aggregation", "secagg"],
    "howto/private_nodes": ["differential privacy", "epsilon", "user-level privacy"],
    "howto/private_records": ["differential privacy", "dp-sgd", "opacus"],
    "howto/sweep": ["sweep", "grid search"],
    "howto/search": ["hyperparameter search", "tuning"],
    "howto/early_stop": ["early stopping", "checkpoint"],
    "howto/resume": ["resume", "crash"],
    "howto/follow_a_run": ["dashboard", "logging", "tensorboard", "wandb", "mlflow"],
    "howto/predict": ["predict", "inference", "onnx", "export onnx"],
    "howto/paper": ["figures", "paper figures", "latex"],
    "howto/reproduce": ["reproducibility", "seed"],
    "howto/deployment": ["deployment", "docker", "tls", "server"],
    "howto/coming_from": ["flower", "nvflare", "fedml", "pfllib"],
    "gallery/scaffold": ["scaffold"],
    "reference/algorithms": ["fedprox", "fedavg", "strategies"],
    "reference/changes": ["versions", "changelog", "compatibility"],
    "reference/python": ["python api", "api"],
    "reference/generated/settings": ["settings", "options", "configuration"],
    "reference/generated/commands": ["command line", "cli", "commands"],
}
TITLE = re.compile(r"^# .*\n", re.MULTILINE)


def setup(app: Sphinx) -> dict[str, bool]:
    """Sphinx calls this before it reads pages."""
    app.connect("env-before-read-docs", _all_are_there)
    app.connect("source-read", _with_its_words)
    return {"parallel_read_safe": True}


def _all_are_there(app: Sphinx, env: BuildEnvironment, names: list[str]) -> None:
    if missing := WORDS.keys() - env.found_docs:
        raise ExtensionError(f"docs/search_words.py names pages that do not exist: {', '.join(sorted(missing))}")


def _with_its_words(app: Sphinx, name: str, source: list[str]) -> None:
    """Put the words of a page into the index, below its title."""
    if name in WORDS:
        entries = ", ".join(f"! {word}" for word in WORDS[name])
        source[0] = TITLE.sub(lambda title: f"{title[0]}\n```{{index}} {entries}\n```\n", source[0], count=1)
