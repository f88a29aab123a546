"""A preset of one's own."""

from ablations.presets.definition import Preset, register

register(
    Preset(
        name="ours",
        library="our own trainer, version 1",
        arguments={"lr": 1e-3, "gamma": 0.98},
        settings=lambda a: {
            "learning_rate": (a["lr"], "train.py"),
            "discount": (a["gamma"], "train.py"),
            "advantage": ("done_cut", "gae.py"),
        },
        in_words=("Its environments are reset by hand.",),
    )
)
