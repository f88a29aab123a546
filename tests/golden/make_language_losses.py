"""Records what TRL's and verl's own code makes of fixed batches, for tests/variants and
tests/trainers: python make_language_losses.py FOLDER, in an environment with trl 1.16.0, verl 0.9.1
and torch.

Nothing of the libraries is copied: their functions run on log-probabilities, or on a policy that is
one table of logits, in place of a model.
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch

PROMPTS, SAMPLES, LENGTH, VOCABULARY = 2, 3, 5, 7


def numbers(x: Any) -> Any:
    """Nested lists of nine digits, as they are written."""
    if isinstance(x, torch.Tensor):
        x = x.detach().tolist()
    if isinstance(x, list):
        return [numbers(one) for one in x]
    return float(f"{x:.9g}") if isinstance(x, float) else x


def masks(generator: torch.Generator, count: int) -> torch.Tensor:
    lengths = torch.randint(1, LENGTH + 1, (count,), generator=generator)
    lengths[0] = LENGTH
    return (torch.arange(LENGTH) < lengths[:, None]).float()


def made_up_batch(seed: int) -> dict[str, torch.Tensor]:
    """Log-probabilities that differ enough for clips to act, [B, L]; rewards [B]."""
    draw = torch.Generator().manual_seed(seed)
    count = PROMPTS * SAMPLES
    log_prob = -2 * torch.rand(count, LENGTH, generator=draw)
    return {
        "log_prob": log_prob,
        "old_log_prob": log_prob + 0.3 * torch.randn(count, LENGTH, generator=draw),
        "reference_log_prob": log_prob + 0.5 * torch.randn(count, LENGTH, generator=draw),
        "mask": masks(draw, count),
        "rewards": torch.tensor([1.0, 0.0, 1.0, 0.5, 0.0, 0.0]),
        "group": torch.arange(count) // SAMPLES,
    }


def group_advantages(rewards: torch.Tensor, group: torch.Tensor, epsilon: float) -> torch.Tensor:
    """(R - mean) / (std + ε) of each prompt's samples, [B]."""
    found = torch.zeros_like(rewards)
    for one in group.unique():
        of_group = rewards[group == one]
        found[group == one] = (of_group - of_group.mean()) / (of_group.std() + epsilon)
    return found


# TRL


def trl_trainer(log_probs: Any, **arguments: Any) -> Any:
    """An object with what GRPOTrainer's methods read, on one process.

    log_probs: (model, inputs [B, 1 + L]) -> log π of the last L, in place of a language model.
    """
    from trl import GRPOConfig, GRPOTrainer

    # A configuration as it comes, without asking the machine for what it can do.
    defaults = {f.name: f.default for f in GRPOConfig.__dataclass_fields__.values()}
    args = SimpleNamespace(**defaults | arguments)

    class Alone(GRPOTrainer):
        def __init__(self) -> None:
            self.args = args

        def _get_per_token_logps_and_entropies(
            self, model: Any, input_ids: Any, *_: Any, **__: Any
        ) -> tuple[Any, Any, None]:
            found = log_probs(model, input_ids)
            return found, torch.zeros_like(found), None

    alone = Alone()
    high = args.epsilon if args.epsilon_high is None else args.epsilon_high
    vars(alone).update(
        beta=args.beta,
        epsilon_low=args.epsilon,
        epsilon_high=high,
        loss_type=args.loss_type,
        importance_sampling_level=args.importance_sampling_level,
        max_completion_length=args.max_completion_length,
        num_iterations=args.num_iterations,
        off_policy_mask_threshold=None,
        top_entropy_quantile=1.0,
        use_vllm=False,
        vllm_importance_sampling_correction=False,
        aux_loss_enabled=False,
        _entropy_bonus_enabled=False,
        _step=0,
        _buffered_inputs=None,
        _metrics={"train": defaultdict(list)},
        current_gradient_accumulation_steps=args.gradient_accumulation_steps,
        model=SimpleNamespace(training=True),
        accelerator=SimpleNamespace(
            num_processes=1,
            is_main_process=False,
            gather=lambda x: x,
            gather_for_metrics=lambda x: x,
            reduce=lambda x, reduction: x,
        ),
    )
    return alone


def trl_inputs(batch: dict[str, torch.Tensor], advantages: torch.Tensor) -> dict[str, torch.Tensor]:
    mask = batch["mask"]
    prompts = torch.zeros(len(mask), 1, dtype=torch.long)
    return {
        "prompt_ids": batch.get("prompt", prompts),
        "prompt_mask": torch.ones_like(prompts),
        "completion_ids": batch.get("tokens", torch.zeros_like(mask, dtype=torch.long)),
        "completion_mask": mask.long(),
        "advantages": advantages,
        "num_items_in_batch": mask.sum(),
        "old_per_token_logps": batch["old_log_prob"],
        "ref_per_token_logps": batch["reference_log_prob"],
    }


TRL_CASES: dict[str, dict[str, Any]] = {
    "beta": {"beta": 0.3},
    "beta, not corrected": {"beta": 0.3, "use_bias_correction_kl": False},
    "beta, on policy": {"beta": 0.3, "on_policy": True},
    "beta, grpo": {"beta": 0.3, "loss_type": "grpo"},
    "beta, cispo": {"beta": 0.3, "loss_type": "cispo", "epsilon_high": 1.3},
    "cispo without epsilon_high": {"loss_type": "cispo"},
    "two-sided": {"delta": 1.25, "epsilon_high": 0.2},
    "luspo": {"loss_type": "luspo", "importance_sampling_level": "sequence", "epsilon": 0.05},
    "sapo": {"loss_type": "sapo"},
    "half a batch": {"steps_per_generation": 2, "num_items_in_batch": 46.0, "beta": 0.3},
    "half a batch, in two parts": {
        "loss_type": "cispo",
        "epsilon_high": 1.3,
        "steps_per_generation": 4,
        "gradient_accumulation_steps": 2,
        "num_items_in_batch": 46.0,
    },
}
TRL_SHOWN = (
    "loss_type",
    "importance_sampling_level",
    "scale_rewards",
    "epsilon",
    "epsilon_high",
    "delta",
    "beta",
    "use_bias_correction_kl",
    "max_completion_length",
    "sapo_temperature_pos",
    "sapo_temperature_neg",
    "steps_per_generation",
    "gradient_accumulation_steps",
)


def trl_losses() -> dict[str, Any]:
    """Losses and gradients of `_compute_loss`, where beta is not 0 or a batch has several steps."""
    batch = made_up_batch(1)
    advantages = group_advantages(batch["rewards"], batch["group"], 1e-4)
    found = {}
    for name, changes in TRL_CASES.items():
        arguments: dict[str, Any] = {
            "max_completion_length": 8,
            "steps_per_generation": 1,
            "gradient_accumulation_steps": 1,
            **changes,
        }
        on_policy = arguments.pop("on_policy", False)
        total = arguments.pop("num_items_in_batch", None)
        log_prob = batch["log_prob"].clone().requires_grad_()
        trainer = trl_trainer(lambda model, _, x=log_prob: x, **arguments)
        inputs = trl_inputs(batch, advantages)
        if total is not None:
            inputs["num_items_in_batch"] = torch.tensor(total)
        if on_policy:
            del inputs["old_per_token_logps"]
        loss = trainer._compute_loss(None, inputs)
        (gradient,) = torch.autograd.grad(loss, log_prob)
        shown = {key: getattr(trainer.args, key) for key in TRL_SHOWN}
        shown["epsilon_high"] = trainer.epsilon_high
        found[name] = shown | {
            "on_policy": on_policy,
            "num_items_in_batch": total,
            "advantages": numbers(advantages),
            "loss": numbers(loss.item()),
            "gradient": numbers(gradient),
        }
    return {
        "about": about("TRL", "trl", "GRPOTrainer._compute_loss ran on given log-probabilities"),
        "batch": {name: numbers(x) for name, x in batch.items()},
        "variants": found,
    }


def trl_steps() -> dict[str, Any]:
    """Every step of Adam on two batches of a policy whose logits are one row per token before:
    `_prepare_inputs` shuffles and cuts the batch, and hands it out twice; `_compute_loss`, torch's
    AdamW, norm clip and transformers' linear schedule do what Trainer does with them."""
    from transformers import get_linear_schedule_with_warmup

    arguments = {
        "per_device_train_batch_size": 3,
        "gradient_accumulation_steps": 2,
        "steps_per_generation": 4,
        "num_iterations": 2,
        "max_completion_length": LENGTH,
        "beta": 0.3,
        "epsilon_high": 0.28,
        "learning_rate": 0.05,
        "max_grad_norm": 0.15,
    }
    draw = torch.Generator().manual_seed(2)
    torch.manual_seed(3)  # _prepare_inputs shuffles with the global generator
    prompts, samples, steps = 3, 4, 16
    table = torch.randn(VOCABULARY, VOCABULARY, generator=draw).requires_grad_()
    first = table.detach().clone()
    reference = first + 0.3 * torch.randn(VOCABULARY, VOCABULARY, generator=draw)

    def log_probs(model: torch.Tensor, inputs: torch.Tensor) -> torch.Tensor:
        logits = torch.log_softmax(model[inputs[:, :-1]], -1)
        return logits.gather(-1, inputs[:, 1:, None])[..., 0]

    trainer = trl_trainer(log_probs, **arguments)
    batches = []

    def generated(_: Any) -> dict[str, torch.Tensor]:
        count = prompts * samples
        prompt = torch.randint(VOCABULARY, (prompts,), generator=draw)
        batch = {
            "prompt": prompt.repeat_interleave(samples)[:, None],
            "tokens": torch.randint(VOCABULARY, (count, LENGTH), generator=draw),
            "mask": masks(draw, count),
            "rewards": torch.randint(0, 3, (count,), generator=draw) / 2,
            "group": torch.arange(count) // samples,
        }
        inputs = torch.cat([batch["prompt"], batch["tokens"]], 1)
        batch["old_log_prob"] = log_probs(table.detach(), inputs)
        batch["reference_log_prob"] = log_probs(reference, inputs)
        batches.append(batch)
        advantages = group_advantages(batch["rewards"], batch["group"], 1e-4)
        return trl_inputs(batch, advantages) | {"place": torch.arange(count)}

    trainer._generate_and_score_completions = generated
    optimizer = torch.optim.AdamW([table], lr=0.05, eps=1e-8, weight_decay=0.0)
    schedule = get_linear_schedule_with_warmup(optimizer, 0, steps)
    taken = []
    for _ in range(8):
        loss, places = 0.0, []
        for _ in range(arguments["gradient_accumulation_steps"]):
            inputs = trainer._prepare_inputs(None)
            part = trainer._compute_loss(table, inputs)
            part.backward()
            trainer._step += 1
            loss += part.item()
            places += inputs["place"].tolist()
        norm = torch.nn.utils.clip_grad_norm_([table], arguments["max_grad_norm"])
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
        taken.append({"places": places, "loss": loss, "gradient_norm": norm.item()})
    return {
        "about": about("TRL", "trl", "a table of logits took eight steps on two batches"),
        "arguments": arguments | {"num_generations": samples},
        "steps_of_training": steps,
        "table": numbers(first),
        "reference": numbers(reference),
        "batches": [{name: numbers(x) for name, x in one.items()} for one in batches],
        "steps": [{n: numbers(x) for n, x in one.items()} for one in taken],
        "final_table": numbers(table),
    }


def rloo_losses() -> dict[str, Any]:
    from trl import RLOOConfig, RLOOTrainer

    batch = made_up_batch(1)
    log_prob = batch["log_prob"].clone().requires_grad_()
    advantages = torch.tensor([0.5, -1.0, 0.5, 0.5, -0.25, -0.25])
    defaults = {f.name: f.default for f in RLOOConfig.__dataclass_fields__.values()}

    class Alone(RLOOTrainer):
        def __init__(self) -> None:
            self.args = SimpleNamespace(**defaults)

        def _get_per_token_logps_and_entropies(self, *_: Any, **__: Any) -> tuple[Any, Any, None]:
            return log_prob, torch.zeros_like(log_prob), None

    alone = Alone()
    of_grpo = vars(trl_trainer(None, epsilon=0.3, epsilon_high=0.4))
    vars(alone).update(of_grpo | {"args": alone.args})
    inputs = trl_inputs(batch, advantages)
    inputs["old_logps"] = (batch["old_log_prob"] * batch["mask"]).sum(1)
    loss = alone._compute_loss(None, inputs)
    (gradient,) = torch.autograd.grad(loss, log_prob)
    return {
        "about": about("TRL", "trl", "RLOOTrainer._compute_loss ran on given log-probabilities"),
        "batch": {name: numbers(x) for name, x in batch.items()},
        "epsilon": 0.3,
        "epsilon_high": 0.4,
        "advantages": numbers(advantages),
        "loss": numbers(loss.item()),
        "gradient": numbers(gradient),
    }


# verl


VERL_CASES: dict[str, dict[str, Any]] = {
    "clamped ratios": {},
    "low_var_kl": {"kl_loss_type": "low_var_kl", "kl_loss_coef": 0.3},
    "mse": {"kl_loss_type": "mse", "kl_loss_coef": 0.3},
    "kl": {"kl_loss_type": "kl", "kl_loss_coef": 0.3},
    "seq-mean-token-sum-norm": {"loss_agg_mode": "seq-mean-token-sum-norm"},
    "clip_ratio beside its parts": {"clip_ratio": 0.5},
    "clip_ratio alone": {"clip_ratio": 0.3, "clip_ratio_low": None, "clip_ratio_high": None},
    "sapo": {"loss_mode": "sapo", "loss_agg_mode": "seq-mean-token-mean"},
}


def verl_losses() -> dict[str, Any]:
    """Policy losses, with the divergence as the actor adds it, of log-probabilities some of which
    are farther apart than a float can exponentiate."""
    from verl.trainer.ppo import core_algos
    from verl.workers.config import ActorConfig

    batch = made_up_batch(4)
    batch["mask"][1, :3] = batch["mask"][4, :3] = 1
    batch["old_log_prob"][1, 0] = batch["log_prob"][1, 0] - 100  # A < 0, and its ratio is infinite
    batch["old_log_prob"][4, 1] = batch["log_prob"][4, 1] + 30
    batch["reference_log_prob"][1, 1] = batch["log_prob"][1, 1] + 100
    batch["reference_log_prob"][4, 2] = batch["log_prob"][4, 2] + 3  # k3 is above 10
    batch["reference_log_prob"][0, 3] = batch["log_prob"][0, 3] - 25
    batch["reference_log_prob"][0, 1] = batch["log_prob"][0, 1] + 2
    advantages = group_advantages(batch["rewards"], batch["group"], 1e-6)[:, None] * batch["mask"]
    found = {}
    for name, changes in VERL_CASES.items():
        arguments = {
            "loss_mode": "vanilla",
            "loss_agg_mode": "token-mean",
            "clip_ratio": 0.2,
            "clip_ratio_low": 0.2,
            "clip_ratio_high": 0.28,
            "clip_ratio_c": 3.0,
            "kl_loss_type": "low_var_kl",
            "kl_loss_coef": 0.0,
            **changes,
        }
        clips = {key: x for key, x in arguments.items() if key.startswith("clip")}
        config = ActorConfig(
            strategy="fsdp",
            rollout_n=SAMPLES,
            use_dynamic_bsz=True,
            loss_agg_mode=arguments["loss_agg_mode"],
            **clips,
        )
        log_prob = batch["log_prob"].clone().requires_grad_()
        loss, _ = core_algos.get_policy_loss_fn(arguments["loss_mode"])(
            old_log_prob=batch["old_log_prob"],
            log_prob=log_prob,
            advantages=advantages,
            response_mask=batch["mask"],
            loss_agg_mode=arguments["loss_agg_mode"],
            config=config,
        )
        divergence = core_algos.kl_penalty(
            logprob=log_prob,
            ref_logprob=batch["reference_log_prob"],
            kl_penalty=arguments["kl_loss_type"],
        )
        if arguments["kl_loss_coef"]:
            loss = loss + arguments["kl_loss_coef"] * core_algos.agg_loss(
                loss_mat=divergence,
                loss_mask=batch["mask"],
                loss_agg_mode=arguments["loss_agg_mode"],
            )
        (gradient,) = torch.autograd.grad(loss, log_prob)
        found[name] = arguments | {
            "tau_pos": config.tau_pos,
            "tau_neg": config.tau_neg,
            "loss": numbers(loss.item()),
            "gradient": numbers(gradient),
        }
    return {
        "about": about(
            "verl",
            "verl",
            "policy losses and kl_penalty ran on given log-probabilities",
        ),
        "batch": {name: numbers(x) for name, x in batch.items()},
        "advantages": numbers(advantages),
        "losses": found,
    }


def about(library: str, package: str, made: str) -> dict[str, str]:
    return {
        "library": library,
        "version": f"{package} {version(package)} (PyPI), torch {torch.__version__} on a CPU",
        "made": f"{made} (tests/golden/make_language_losses.py)",
    }


def main() -> None:
    folder = Path(sys.argv[1])
    files = {
        "trl_losses_2": trl_losses,
        "trl_steps_1": trl_steps,
        "trl_rloo_1": rloo_losses,
        "verl_losses_2": verl_losses,
    }
    for name, make in files.items():
        (folder / f"{name}.json").write_text(json.dumps(make(), separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
