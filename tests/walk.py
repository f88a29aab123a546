"""A study whose trainer is a command of a few lines: a random walk in shell."""

# 20 points, `drift` apart, with noise from the seed
SCRIPT = """\
out=$1 seed=$2 drift=$3
echo "step,return" > "$out/log.csv"
i=1
while [ $i -le 20 ]; do
  echo "$((i * 100)),$((i * drift + (seed * 7919 + i * 104729) % 13))" >> "$out/log.csv"
  i=$((i + 1))
done
"""

STUDY = """\
[study]
name = "walk"
claim = "drift helps"
baseline = "slow"
seeds = 3

[command]
run = "sh walk.sh {folder} {seed} {drift}"
curve = "{folder}/log.csv"
step = "step"
metric = "return"

[variants]
slow = {drift = 10}
fast = {drift = 12}
"""
OF_FIVE_SEEDS = STUDY.replace("seeds = 3", "seeds = 5")
FILES = {"walk.sh": SCRIPT, "walk.toml": OF_FIVE_SEEDS}
