"""A small transformer of pictures from `transformers`, with adapters of `peft`."""

import peft
import torch
import transformers


def adapted():
    """Return the module; its frozen weights are the same in every process."""
    with torch.random.fork_rng():
        torch.manual_seed(7)
        base = transformers.ViTForImageClassification(
            transformers.ViTConfig(
                image_size=32, patch_size=16, num_channels=3, hidden_size=32, num_hidden_layers=2,
                num_attention_heads=2, intermediate_size=48, num_labels=10,
            )
        )  # fmt: skip
    names = ["query", "value", "q_proj", "v_proj"]  # of transformers 4, and of 5
    config = peft.LoraConfig(r=4, target_modules=names, modules_to_save=["classifier"])
    return peft.get_peft_model(base, config)
