"""Qwen2 checkpoints: our decoder computes what an independent forward pass does, and says in one
line what is wrong with a file.
"""

from __future__ import annotations

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest

pytest.importorskip("safetensors")
pytest.importorskip("tokenizers")

from qwen2 import SMALL, numpy_logits, random_weights, write_checkpoint

from ablations.errors import UserError
from ablations.trainers.language.decoder import make_decoder
from ablations.trainers.language.pretrained import read_config, read_parameters, read_tokens

TOKENS = [3, 17, 5, 5, 60, 2, 33, 8]


def our_logits(folder, tokens):
    config = read_config(folder)
    decoder = make_decoder(config)
    parameters = read_parameters(folder, config)
    shapes = jax.eval_shape(decoder.init, jax.random.key(0))
    assert jax.tree.map(jnp.shape, parameters) == jax.tree.map(lambda x: x.shape, shapes)
    batch = jnp.asarray([tokens])
    features, _ = decoder.extend(
        parameters, batch, batch >= 0, decoder.empty_cache(1, len(tokens)), 0
    )
    return np.asarray(decoder.logits(parameters, features))[0]


def assert_relatively_close(got, wanted, tolerance=1e-4):
    assert np.max(np.abs(got - wanted)) < tolerance * np.max(np.abs(wanted))


@pytest.mark.parametrize(
    ("change", "shards"),
    [
        ({}, 1),
        ({"tie_word_embeddings": False}, 3),
        ({"num_key_value_heads": 4}, 1),
        ({"num_key_value_heads": 1, "rope_theta": 100.0}, 2),
    ],
)
def test_logits_equal_numpy(tmp_path, change, shards):
    config, weights = write_checkpoint(tmp_path, SMALL | change, shards=shards)
    wanted = numpy_logits(config, weights, TOKENS)
    assert np.std(wanted) > 0.1
    assert_relatively_close(our_logits(tmp_path, TOKENS), wanted)


def test_bfloat16_weights_are_read(tmp_path):
    config, weights = write_checkpoint(tmp_path, kind=jnp.bfloat16)
    rounded = {n: np.asarray(jnp.asarray(x, jnp.bfloat16), np.float32) for n, x in weights.items()}
    assert_relatively_close(our_logits(tmp_path, TOKENS), numpy_logits(config, rounded, TOKENS))


def test_newer_versions_keep_theta_elsewhere(tmp_path):
    config = {n: x for n, x in SMALL.items() if n != "rope_theta"}
    config["rope_parameters"] = {"rope_theta": 1_000_000.0, "rope_type": "default"}
    write_checkpoint(tmp_path, config, random_weights(SMALL))
    assert read_config(tmp_path).rope_theta == 1_000_000.0


def test_logits_equal_transformers(tmp_path):
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    for change in ({}, {"tie_word_embeddings": False, "num_key_value_heads": 4}):
        folder = tmp_path / str(len(change))
        write_checkpoint(folder, SMALL | change, shards=1 + len(change))
        model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
        with torch.no_grad():
            wanted = model(torch.tensor([TOKENS])).logits[0].numpy()
        got = our_logits(folder, TOKENS)
        print("largest difference", np.max(np.abs(got - wanted)) / np.max(np.abs(wanted)))
        assert_relatively_close(got, wanted)


def test_text_becomes_tokens_and_comes_back(tmp_path):
    write_checkpoint(tmp_path)
    tokens = read_tokens(tmp_path, read_config(tmp_path))
    text = "what is 3+4?\n#### 7"
    ids = tokens.encode(text)
    assert tokens.decode(ids) == text
    assert tokens.decode([*ids, tokens.end, *ids]) == text
    assert tokens.end == 1
    assert tokens.pad not in ids
    assert tokens.pad != tokens.end


def test_generation_config_says_what_ends(tmp_path):
    write_checkpoint(tmp_path, SMALL | {"pad_token_id": 0})
    (tmp_path / "generation_config.json").write_text('{"eos_token_id": [5, 1]}')
    tokens = read_tokens(tmp_path, read_config(tmp_path))
    assert (tokens.pad, tokens.end) == (0, 5)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"model_type": "llama"}, "model_type is 'llama', and only 'qwen2' can be read"),
        ({"hidden_act": "gelu"}, "hidden_act='gelu' is not supported, only 'silu' is"),
        ({"use_sliding_window": True}, "use_sliding_window=True is not supported"),
        ({"rope_scaling": {"type": "yarn"}}, "rope_type='yarn' is not supported"),
        ({"hidden_size": None}, "hidden_size is None, and must be a whole number above 0"),
        ({"vocab_size": "64"}, "vocab_size is '64', and must be a whole number"),
        ({"num_key_value_heads": 3}, "4 heads of 6 entries with 3 heads of keys do not fit"),
    ],
)
def test_bad_configurations_are_named(tmp_path, change, message):
    (tmp_path / "config.json").write_text(json.dumps(SMALL | change))
    with pytest.raises(UserError, match=message) as caught:
        read_config(tmp_path)
    assert "config.json" in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, r"config.json does not exist: a model is a folder with"),
        ("{", "is not readable JSON"),
        ("[]", "must hold a JSON object"),
    ],
)
def test_bad_json_is_named(tmp_path, text, message):
    if text is not None:
        (tmp_path / "config.json").write_text(text)
    with pytest.raises(UserError, match=message) as caught:
        read_config(tmp_path)
    assert "\n" not in str(caught.value)


def _without(folder):
    (folder / "model.safetensors").unlink()


def _cut(folder):
    content = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(content[:-50])


def _missing(folder):
    weights = random_weights(SMALL)
    weights.pop("model.layers.1.mlp.up_proj.weight")
    write_checkpoint(folder, weights=weights)


def _wrong_shape(folder):
    write_checkpoint(folder, weights=random_weights(SMALL | {"intermediate_size": 44}))


def _too_many(folder):
    write_checkpoint(folder, weights=random_weights(SMALL | {"num_hidden_layers": 4}))


def _lost_shard(folder):
    _without(folder)
    write_checkpoint(folder, shards=2)
    (folder / "model-00002-of-00002.safetensors").unlink()


def _empty_index(folder):
    _without(folder)
    (folder / "model.safetensors.index.json").write_text("{}")


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (_without, "holds no weights: model.safetensors or model.safetensors.index.json"),
        (_cut, "model.safetensors cannot be read"),
        (_missing, "the weights lack model.layers.1.mlp.up_proj.weight"),
        (_wrong_shape, r"gate_proj.weight is \[44, 24\], and config.json makes it \[40, 24\]"),
        (_too_many, r"the weights hold model.layers.3.*does not have \(12 such\)"),
        (_lost_shard, "names model-00002-of-00002.safetensors, which is not in"),
        (_empty_index, "weight_map must say which file holds which weight"),
    ],
)
def test_bad_weights_are_named(tmp_path, spoil, message):
    write_checkpoint(tmp_path)
    spoil(tmp_path)
    with pytest.raises(UserError, match=message) as caught:
        read_parameters(tmp_path, read_config(tmp_path))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("config", "tokenizer", "message"),
    [
        ({}, None, "tokenizer.json does not exist"),
        ({}, "{}", "tokenizer.json is not a tokenizer"),
        ({"eos_token_id": None}, "", "eos_token_id is None, and must be a token, 0 to 63"),
        ({"eos_token_id": 64}, "", "eos_token_id is 64, and must be a token, 0 to 63"),
        ({"vocab_size": 20}, "", "tokenizer.json knows 50 tokens, and the model of config.json 20"),
    ],
)
def test_bad_tokenizers_are_named(tmp_path, config, tokenizer, message):
    write_checkpoint(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps(SMALL | {"pad_token_id": 0} | config))
    if tokenizer is None:
        (tmp_path / "tokenizer.json").unlink()
    elif tokenizer:
        (tmp_path / "tokenizer.json").write_text(tokenizer)
    with pytest.raises(UserError, match=message) as caught:
        read_tokens(tmp_path, read_config(tmp_path))
    assert "\n" not in str(caught.value)
