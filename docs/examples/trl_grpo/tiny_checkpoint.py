"""A checkpoint in Hugging Face's format with random weights, and a tokenizer of characters."""

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM

SPECIAL = ["<pad>", "<eos>"]


def write(folder: str, seed: int, characters: str) -> str:
    """Two layers, 64 wide. The seed decides the weights, whatever the variant."""
    tokens = {name: number for number, name in enumerate([*SPECIAL, *characters])}
    splitter = Tokenizer(models.WordLevel(tokens, unk_token=SPECIAL[0]))
    splitter.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    splitter.decoder = decoders.Fuse()
    named = {"pad_token": SPECIAL[0], "eos_token": SPECIAL[1]}
    PreTrainedTokenizerFast(tokenizer_object=splitter, **named).save_pretrained(folder)
    size = {"hidden_size": 64, "intermediate_size": 256, "num_hidden_layers": 2}
    heads = {"num_attention_heads": 4, "num_key_value_heads": 4, "max_position_embeddings": 64}
    ends = {"pad_token_id": 0, "eos_token_id": 1, "bos_token_id": None}
    torch.manual_seed(seed)
    model = Qwen2ForCausalLM(Qwen2Config(vocab_size=len(tokens), **size, **heads, **ends))
    model.save_pretrained(folder)
    return folder
