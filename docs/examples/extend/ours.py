"""A preset of one's own."""

from ablations.presets.definition import Argument, Preset, register

register(
    Preset(
        name="ours",
        library="our own trainer, version 1",
        arguments={
            "lr": Argument(1e-3, "learning_rate", "train.py"),
            "gamma": Argument(0.98, "discount", "train.py"),
        },
        settings=lambda a: {"advantage": ("done_cut", "gae.py")},
        in_words=("Its environments are reset by hand.",),
    )
)
