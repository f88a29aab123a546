"""Qwen2 checkpoints that the tests write themselves, and the forward pass in plain NumPy."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

SMALL = {
    "architectures": ["Qwen2ForCausalLM"],
    "model_type": "qwen2",
    "hidden_act": "silu",
    "hidden_size": 24,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 40,
    "vocab_size": 64,
    "rope_theta": 1_000_000.0,
    "rms_norm_eps": 1e-6,
    "tie_word_embeddings": True,
    "use_sliding_window": False,
    "max_position_embeddings": 128,
    "bos_token_id": 0,
    "eos_token_id": 1,
    "torch_dtype": "float32",
}


def random_weights(config: dict[str, Any], seed: int = 0) -> dict[str, np.ndarray]:
    """By the names of the format; large enough for attention to choose."""
    rng = np.random.default_rng(seed)
    D, F, V = config["hidden_size"], config["intermediate_size"], config["vocab_size"]
    h = D // config["num_attention_heads"]
    kv = h * config["num_key_value_heads"]
    shapes = {"model.embed_tokens.weight": (V, D), "model.norm.weight": (D,)}
    if not config["tie_word_embeddings"]:
        shapes["lm_head.weight"] = (V, D)
    for i in range(config["num_hidden_layers"]):
        layer = f"model.layers.{i}"
        for name, size in (("q", D), ("k", kv), ("v", kv)):
            shapes[f"{layer}.self_attn.{name}_proj.weight"] = (size, D)
            shapes[f"{layer}.self_attn.{name}_proj.bias"] = (size,)
        shapes |= {
            f"{layer}.self_attn.o_proj.weight": (D, D),
            f"{layer}.mlp.gate_proj.weight": (F, D),
            f"{layer}.mlp.up_proj.weight": (F, D),
            f"{layer}.mlp.down_proj.weight": (D, F),
            f"{layer}.input_layernorm.weight": (D,),
            f"{layer}.post_attention_layernorm.weight": (D,),
        }
    return {
        n: (rng.normal(size=s) * 0.3 + ("norm" in n)).astype(np.float32) for n, s in shapes.items()
    }


def numpy_logits(config: dict[str, Any], weights: dict[str, Any], tokens: list[int]) -> np.ndarray:
    """Logits [S, V] of one sequence in float64, a position and a head at a time."""
    W = {n: np.asarray(x, np.float64) for n, x in weights.items()}
    heads, groups = config["num_attention_heads"], config["num_key_value_heads"]
    h = config["hidden_size"] // heads
    half = h // 2

    def normed(x: np.ndarray, name: str) -> np.ndarray:
        return x / np.sqrt(np.mean(x * x) + config["rms_norm_eps"]) * W[f"{name}.weight"]

    def turned(x: np.ndarray, position: int) -> np.ndarray:
        result = np.empty(h)
        for i in range(half):
            angle = position * config["rope_theta"] ** (-2 * i / h)
            pair = complex(x[i], x[i + half]) * complex(np.cos(angle), np.sin(angle))
            result[i], result[i + half] = pair.real, pair.imag
        return result

    xs = [W["model.embed_tokens.weight"][token] for token in tokens]
    for i in range(config["num_hidden_layers"]):
        layer = f"model.layers.{i}"
        keys: list[list[np.ndarray]] = []
        values: list[list[np.ndarray]] = []
        after = []
        for position, x in enumerate(xs):
            y = normed(x, f"{layer}.input_layernorm")
            q, k, v = (
                W[f"{layer}.self_attn.{n}_proj.weight"] @ y + W[f"{layer}.self_attn.{n}_proj.bias"]
                for n in "qkv"
            )
            keys.append([turned(k[g * h : (g + 1) * h], position) for g in range(groups)])
            values.append([v[g * h : (g + 1) * h] for g in range(groups)])
            mixed = []
            for n in range(heads):
                g = n // (heads // groups)
                query = turned(q[n * h : (n + 1) * h], position)
                scores = np.array([query @ keys[s][g] / np.sqrt(h) for s in range(position + 1)])
                weight = np.exp(scores - scores.max())
                weight /= weight.sum()
                mixed.append(sum(w * values[s][g] for s, w in enumerate(weight)))
            x = x + W[f"{layer}.self_attn.o_proj.weight"] @ np.concatenate(mixed)
            y = normed(x, f"{layer}.post_attention_layernorm")
            gate = W[f"{layer}.mlp.gate_proj.weight"] @ y
            gate = gate / (1 + np.exp(-gate)) * (W[f"{layer}.mlp.up_proj.weight"] @ y)
            after.append(x + W[f"{layer}.mlp.down_proj.weight"] @ gate)
        xs = after
    head = W.get("lm_head.weight", W["model.embed_tokens.weight"])
    return np.stack([head @ normed(x, "model.norm") for x in xs])


def write_checkpoint(
    folder: Path,
    config: dict[str, Any] | None = None,
    weights: dict[str, np.ndarray] | None = None,
    shards: int = 1,
    kind: Any = np.float32,
) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """A model's folder: config.json, weights in one or several files, tokenizer.json."""
    from safetensors.flax import save_file

    config = SMALL if config is None else config
    weights = random_weights(config) if weights is None else weights
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    import jax.numpy as jnp

    stored = {n: jnp.asarray(x, kind) for n, x in weights.items()}
    if shards == 1:
        save_file(stored, folder / "model.safetensors")
    else:
        names, of_tensor = sorted(stored), {}
        for part in range(shards):
            file = f"model-{part + 1:05}-of-{shards:05}.safetensors"
            chosen = names[part::shards]
            save_file({n: stored[n] for n in chosen}, folder / file)
            of_tensor |= dict.fromkeys(chosen, file)
        index = {"metadata": {}, "weight_map": of_tensor}
        (folder / "model.safetensors.index.json").write_text(json.dumps(index), encoding="utf-8")
    write_tokenizer(folder / "tokenizer.json")
    return config, weights


def write_tokenizer(path: Path) -> None:
    """One token a character: digits, small letters and some signs."""
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers

    signs = ["<pad>", "<end>", *"0123456789abcdefghijklmnopqrstuvwxyz +-#?.:\n,$QA"]
    tokenizer = Tokenizer(models.WordLevel({s: i for i, s in enumerate(signs)}, unk_token="?"))
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex("."), behavior="isolated")
    tokenizer.decoder = decoders.Fuse()
    tokenizer.add_special_tokens(["<pad>", "<end>"])
    tokenizer.save(str(path))
