"""TRL's GRPOTrainer learns to repeat a digit. What it logs goes to TENSORBOARD_LOGGING_DIR."""

import argparse

import tiny_checkpoint
from datasets import Dataset
from trl import GRPOConfig, GRPOTrainer

parser = argparse.ArgumentParser()
parser.add_argument("--seed", type=int)
parser.add_argument("--steps", type=int)
parser.add_argument("--scale-rewards", choices=("group", "batch", "none"))
parser.add_argument("--out")
options = parser.parse_args()


def share_of_digit(prompts, completions, **_):
    """How much of 8 characters is the digit that the prompt names."""
    return [text.count(prompt[0]) / 8 for prompt, text in zip(prompts, completions, strict=True)]


prompts = Dataset.from_dict({"prompt": [f"{digit}=" for digit in range(10)] * 100})
model = tiny_checkpoint.write(f"{options.out}/model", options.seed, "0123456789=")
batch = {"per_device_train_batch_size": 64, "num_generations": 8, "max_completion_length": 8}
chosen = {"scale_rewards": options.scale_rewards, "seed": options.seed, "max_steps": options.steps}
rate = {"learning_rate": 1e-3, "lr_scheduler_type": "constant"}
logs = {"logging_steps": 5, "report_to": "tensorboard", "save_strategy": "no", "use_cpu": True}
config = GRPOConfig(f"{options.out}/checkpoints", **batch, **chosen, **rate, **logs, bf16=False)
GRPOTrainer(model, share_of_digit, config, train_dataset=prompts).train()
