"""Stable-Baselines3's PPO, with or without normalised advantages. Leaves --out/progress.csv."""

import argparse

from stable_baselines3 import PPO
from stable_baselines3.common.logger import configure

parser = argparse.ArgumentParser()
parser.add_argument("--task")
parser.add_argument("--seed", type=int)
parser.add_argument("--steps", type=int)
parser.add_argument("--learning-rate", type=float)
parser.add_argument("--normalize-advantage", choices=("true", "false"))
parser.add_argument("--out")
options = parser.parse_args()

model = PPO(
    "MlpPolicy",
    options.task,
    learning_rate=options.learning_rate,
    normalize_advantage=options.normalize_advantage == "true",
    seed=options.seed,
    device="cpu",
)
model.set_logger(configure(options.out, ["csv"]))
model.learn(options.steps)
