"""REINFORCE as CleanRL would write it: one file, flags of a dataclass, TensorBoard in runs/."""

from dataclasses import make_dataclass

import gymnasium
import torch
import tyro
from torch.utils.tensorboard import SummaryWriter

flags = {"env_id": "CartPole-v1", "seed": 1, "total_timesteps": 20_000, "norm_returns": True}
args = tyro.cli(make_dataclass("Args", [(name, type(flags[name]), flags[name]) for name in flags]))
writer = SummaryWriter(f"runs/{args.env_id}__reinforce__{args.seed}")
torch.manual_seed(args.seed)
env = gymnasium.make(args.env_id)
policy = torch.nn.Sequential(torch.nn.Linear(4, 64), torch.nn.Tanh(), torch.nn.Linear(64, 2))
optimizer = torch.optim.Adam(policy.parameters(), lr=2e-3)
(obs, _), log_probs, rewards = env.reset(seed=args.seed), [], []
for global_step in range(1, args.total_timesteps + 1):
    actions = torch.distributions.Categorical(logits=policy(torch.as_tensor(obs)))
    log_probs.append(actions.log_prob(action := actions.sample()))
    obs, reward, terminated, truncated, _ = env.step(action.item())
    rewards.append(reward)
    if terminated or truncated:
        writer.add_scalar("charts/episodic_return", sum(rewards), global_step)
        returns = torch.tensor(rewards).flip(0).cumsum(0).flip(0)  # to go
        if args.norm_returns:
            returns = (returns - returns.mean()) / (returns.std() + 1e-8)
        optimizer.zero_grad(), (-torch.stack(log_probs) @ returns).backward(), optimizer.step()
        (obs, _), log_probs, rewards = env.reset(), [], []
