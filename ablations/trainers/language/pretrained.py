"""Reading a language model from a folder in Hugging Face's format, of the Qwen2 architecture.

    config.json             the numbers of the decoder
    model.safetensors       the weights, or several files that model.safetensors.index.json names
    tokenizer.json          text to tokens and back

Only local files are read. Weights become float32, whatever they are kept in. Every complaint is a
`UserError` that names the file.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ablations.errors import UserError
from ablations.trainers.language.decoder import DecoderConfig

WEIGHTS = "model.safetensors"
INDEX = f"{WEIGHTS}.index.json"
# Buffers that some versions wrote beside the weights.
IGNORED = ("rotary_emb.inv_freq",)


class Tokens(NamedTuple):
    """Text to tokens and back. pad is no token of any text; end stops a completion."""

    tokenizer: Any
    pad: int
    end: int

    def encode(self, text: str) -> list[int]:
        return list(self.tokenizer.encode(text, add_special_tokens=False).ids)

    def decode(self, ids: Any) -> str:
        """The text of tokens up to the end token."""
        ids = [int(token) for token in ids]
        ids = ids[: ids.index(self.end)] if self.end in ids else ids
        return str(self.tokenizer.decode([token for token in ids if token != self.pad]))


def read_config(folder: Path) -> DecoderConfig:
    """The numbers in config.json. Raises UserError for what our decoder does not compute."""
    path = folder / "config.json"
    found = _json(path)
    if found.get("model_type") != "qwen2":
        raise UserError(
            f"{path}: model_type is {found.get('model_type')!r}, and only 'qwen2' can be read"
        )
    rope = found.get("rope_parameters") or found.get("rope_scaling") or {}
    for name, value, wanted in (
        ("hidden_act", found.get("hidden_act", "silu"), "silu"),
        ("use_sliding_window", found.get("use_sliding_window", False), False),
        ("rope_type", rope.get("rope_type", rope.get("type", "default")), "default"),
    ):
        if value != wanted:
            raise UserError(f"{path}: {name}={value!r} is not supported, only {wanted!r} is")
    heads, width = _count(path, found, "num_attention_heads"), _count(path, found, "hidden_size")
    config = DecoderConfig(
        vocabulary=_count(path, found, "vocab_size"),
        width=width,
        layers=_count(path, found, "num_hidden_layers"),
        heads=heads,
        kv_heads=_count(path, found, "num_key_value_heads", heads),
        head_width=_count(path, found, "head_dim", width // heads),
        mlp_width=_count(path, found, "intermediate_size"),
        attention_bias=True,
        tied=bool(found.get("tie_word_embeddings", False)),
        rope_theta=float(rope.get("rope_theta", found.get("rope_theta", 10_000.0))),
        norm_epsilon=float(found.get("rms_norm_eps", 1e-6)),
    )
    if heads % config.kv_heads or config.head_width % 2:
        raise UserError(
            f"{path}: {heads} heads of {config.head_width} entries with {config.kv_heads} heads of "
            f"keys do not fit together: heads are a multiple of those of keys, and entries even"
        )
    return config


def read_parameters(folder: Path, config: DecoderConfig) -> dict[str, Any]:
    """The weights as the parameters of `make_decoder(config)`, float32 on the host."""
    tensors = _tensors(folder)
    used = set()

    def take(name: str, *shape: int) -> np.ndarray:
        if name not in tensors:
            raise UserError(f"{folder}: the weights lack {name}, which config.json calls for")
        used.add(name)
        found = tensors[name]
        if found.shape != shape:
            raise UserError(
                f"{folder}: {name} is {list(found.shape)}, and config.json makes it {list(shape)}"
            )
        return found

    def linear(prefix: str, outputs: dict[str, int], inputs: int, bias: bool) -> dict[str, Any]:
        """Several matrices that read the same inputs, as one."""
        weights = [take(f"{prefix}.{n}.weight", size, inputs) for n, size in outputs.items()]
        layer = {"kernel": np.concatenate(weights).T}
        if bias:
            biases = [take(f"{prefix}.{n}.bias", size) for n, size in outputs.items()]
            layer["bias"] = np.concatenate(biases)
        return layer

    def norm(name: str) -> dict[str, Any]:
        return {"scale": take(f"{name}.weight", config.width)}

    queries, keys = config.heads * config.head_width, config.kv_heads * config.head_width
    parameters: dict[str, Any] = {
        "embedding": take("model.embed_tokens.weight", config.vocabulary, config.width),
        "norm": norm("model.norm"),
    }
    for i in range(config.layers):
        layer = f"model.layers.{i}"
        parameters[f"blocks_{i}"] = {
            "attention_norm": norm(f"{layer}.input_layernorm"),
            "qkv": linear(
                f"{layer}.self_attn",
                {"q_proj": queries, "k_proj": keys, "v_proj": keys},
                config.width,
                config.attention_bias,
            ),
            "attention_out": linear(
                f"{layer}.self_attn", {"o_proj": config.width}, queries, bias=False
            ),
            "mlp_norm": norm(f"{layer}.post_attention_layernorm"),
            "gate_up": linear(
                f"{layer}.mlp",
                {"gate_proj": config.mlp_width, "up_proj": config.mlp_width},
                config.width,
                bias=False,
            ),
            "mlp_out": linear(
                f"{layer}.mlp", {"down_proj": config.width}, config.mlp_width, bias=False
            ),
        }
    if not config.tied:
        head = take("lm_head.weight", config.vocabulary, config.width)
        parameters["head"] = {"kernel": head.T}
    left = [n for n in tensors if n not in used and not n.endswith(IGNORED)]
    left = [n for n in left if n != "lm_head.weight"]
    if left:
        raise UserError(
            f"{folder}: the weights hold {left[0]}, which a Qwen2 decoder of config.json's numbers "
            f"does not have ({len(left)} such)"
        )
    return {"params": parameters}


def read_tokens(folder: Path, config: DecoderConfig) -> Tokens:
    """The tokenizer, and which tokens pad and end.

    The end token is that of generation_config.json or config.json, the first where there are
    several. Padding must be told apart from text: pad_token_id where it is not the end token, else
    a row of the embedding that no text uses.
    """
    with _extra("tokenizers"):
        import tokenizers
    path = folder / "tokenizer.json"
    if not path.is_file():
        raise UserError(f"{path} does not exist: a model's folder holds its tokenizer")
    try:
        tokenizer = tokenizers.Tokenizer.from_file(str(path))
    except Exception as error:  # the library raises bare Exception
        raise UserError(f"{path} is not a tokenizer: {_line(error)}") from error
    said = _json(folder / "config.json")
    generation = folder / "generation_config.json"
    if generation.is_file():
        said = {**said, **_json(generation)}
    end = said.get("eos_token_id")
    end = end[0] if isinstance(end, list) and end else end
    known = tokenizer.get_vocab_size()
    pad = said.get("pad_token_id")
    if pad is None or pad == end:
        pad = known

    def checked(name: str, token: Any) -> int:
        if not isinstance(token, int) or not 0 <= token < config.vocabulary:
            raise UserError(
                f"{folder / 'config.json'}: {name} is {token!r}, and must be a token, "
                f"0 to {config.vocabulary - 1}, that is not the other one's"
            )
        return token

    if known > config.vocabulary:
        raise UserError(
            f"{path} knows {known} tokens, and the model of config.json {config.vocabulary}"
        )
    return Tokens(tokenizer, end=checked("eos_token_id", end), pad=checked("pad_token_id", pad))


def _tensors(folder: Path) -> dict[str, np.ndarray]:
    """All weights by name."""
    index = folder / INDEX
    if (folder / WEIGHTS).is_file():
        files = [WEIGHTS]
    elif index.is_file():
        of_tensor = _json(index).get("weight_map")
        if not isinstance(of_tensor, dict) or not of_tensor:
            raise UserError(f"{index}: weight_map must say which file holds which weight")
        files = sorted({str(name) for name in of_tensor.values()})
        for name in files:
            if Path(name).name != name or not (folder / name).is_file():
                raise UserError(f"{index} names {name}, which is not in {folder}")
    else:
        raise UserError(f"{folder} holds no weights: {WEIGHTS} or {INDEX}")

    with _extra("safetensors"):
        from safetensors import SafetensorError, safe_open
    found = {}
    for name in files:
        try:
            # NumPy knows no bfloat16, JAX does.
            with safe_open(folder / name, framework="flax") as stored:
                for tensor in stored.keys():  # noqa: SIM118  # not a mapping
                    found[tensor] = np.asarray(stored.get_tensor(tensor), np.float32)
        except (SafetensorError, OSError) as error:
            raise UserError(f"{folder / name} cannot be read: {_line(error)}") from error
    return found


def _json(path: Path) -> Mapping[str, Any]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UserError(
            f"{path} does not exist: a model is a folder with config.json, {WEIGHTS} and "
            f"tokenizer.json"
        ) from None
    except (OSError, ValueError) as error:
        raise UserError(f"{path} is not readable JSON: {_line(error)}") from error
    if not isinstance(found, dict):
        raise UserError(f"{path} must hold a JSON object")
    return found


def _count(path: Path, found: Mapping[str, Any], name: str, default: int | None = None) -> int:
    value = found.get(name)
    value = default if value is None else value
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise UserError(
            f"{path}: {name} is {found.get(name)!r}, and must be a whole number above 0"
        )
    return value


@contextmanager
def _extra(package: str) -> Iterator[None]:
    try:
        yield
    except ImportError as error:
        raise UserError(
            f"reading a model needs {package}: pip install 'rl-ablations[language]'"
        ) from error


def _line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]
