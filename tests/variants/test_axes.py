"""The axes that are there, their numbers, and importing them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import variants
from variants import UnknownName


def test_every_choice_can_be_traced_and_returns_what_the_first_of_its_axis_does() -> None:
    for axis in variants.axes().values():
        axis.check()


def test_choices_without_a_range_read_none():
    """And report no clip fraction, not what some range would have clipped."""
    for axis, names in (("policy_loss", ("none", "kl_penalty", "sapo")), ("value_clip", ("none",))):
        for choice in variants.axis(axis).values():
            reads = any("clip" in n or n == "ratio_cap" for n in choice.numbers)
            assert reads == (choice.name not in names), choice.name


def test_axes_are_read_only():
    with pytest.raises(TypeError):
        variants.axes()["mine"] = None
    with pytest.raises(TypeError):
        variants.axis("advantage").inputs["more"] = None
    with pytest.raises(AttributeError):
        variants.axis("advantage")["brax"].revision = 2


def test_unknown_names_come_with_the_nearest():
    with pytest.raises(UnknownName, match=r"unknown axis 'advantge': did you mean 'advantage'\?"):
        variants.axis("advantge")
    axis = variants.axis("advantage")
    message = (
        r"^unknown choice 'donecut' of axis 'advantage': did you mean 'done_cut'\? "
        r"known: standard, done_cut, masked_truncation, brax, timeout_bonus"
    )
    inputs = dict.fromkeys(axis.inputs, 0.0)
    for ask in (
        axis.__getitem__,
        axis.index,
        lambda name: axis.apply(name, **inputs),
        lambda name: axis.switch(name, {}),
        lambda name: axis.matches(0, name),
    ):
        with pytest.raises(UnknownName, match=message):
            ask("donecut")
    with pytest.raises(
        LookupError, match="unknown axis 'qqqqqq': known: action_distribution, advantage, "
    ):
        variants.axis("qqqqqq")
    assert axis.get("donecut") is None
    assert "donecut" not in axis
    assert 3 not in axis


def test_numbers_have_their_published_defaults_and_bounds():
    """Hashes of runs rest on the defaults. A process of its own, as other tests register more."""
    script = (
        "import variants\n"
        "for axis in variants.axes().values():\n"
        "    for name, x in axis.known_numbers.items():\n"
        "        assert name not in variants.axes()\n"
        "        print(name, x.default, x.low, x.high, sep=',')"
    )
    said = subprocess.run(
        [sys.executable, "-c", script], check=True, capture_output=True, text=True
    )
    published = Path(__file__).with_name("numbers.csv").read_text().splitlines()[1:]
    assert sorted({*said.stdout.splitlines()}) == published
    assert (
        variants.axis("reward_scaling").known_numbers["discount"]
        is (variants.axis("advantage").numbers["discount"])
    )


def test_import_starts_no_backend():
    """The process that plans imports the registry, and never starts JAX."""
    script = (
        "import variants; from jax._src import xla_bridge\n"
        "assert not xla_bridge.backends_are_initialized()"
    )
    subprocess.run([sys.executable, "-c", script], check=True)
