"""A tiny BERT with random weights, written as the directory a user would download."""

from __future__ import annotations

import json
from pathlib import Path

import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import BertConfig, BertModel

PIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "a", "big", "blue", "fish", "in", "one", "pond", "red", "swim", "two"]


def tiny_encoder(directory: Path) -> Path:
    directory.mkdir()
    tokenizer = Tokenizer(models.WordLevel({piece: n for n, piece in enumerate(PIECES)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[(piece, PIECES.index(piece)) for piece in ("[CLS]", "[SEP]")]
    )
    tokenizer.save(str(directory / "tokenizer.json"))
    config = BertConfig(
        vocab_size=len(PIECES), hidden_size=8, num_hidden_layers=2, num_attention_heads=2, intermediate_size=16,
        max_position_embeddings=64,
    )  # fmt: skip
    torch.manual_seed(0)
    (directory / "config.json").write_text(json.dumps({"_name_or_path": "/home/somebody", **config.to_dict()}))
    save_file(BertModel(config).state_dict(), directory / "model.safetensors")
    return directory
