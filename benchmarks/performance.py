"""Write the speed pages that benchmarks/README.md quotes.

    python benchmarks/performance.py [SECTION ...] [--against COMMIT] [--rounds 3]

Sections run in this order: physics, before, flags, discrete_steady, peers, peers_wide.
Each runs a script of this folder and writes results/reference/speed/SECTION.md. The last two take
hours with three rounds. Run nothing else on the machine meanwhile.
"""

from __future__ import annotations

import argparse
import shlex
import subprocess
import sys
from pathlib import Path

from pages import measured_on, write

ROOT = Path(__file__).resolve().parents[1]
PAGES = ROOT / "results" / "reference" / "speed"
# The commit before portable bits and the trailing batch axis of the physics.
BEFORE = "0630e7c^"
AVX512 = "ours --xla_cpu_max_isa=AVX512 --xla_cpu_prefer_vector_width=512"


def sections(against: str, rounds: int) -> dict[str, list[str]]:
    """Return the commands of each section; a command with {page} writes the page itself."""
    peers = f"peers.py --rounds {rounds} --output {{page}}"
    return {
        "physics": ["test_speed.py hopper ant"],
        "before": [
            f"speed_of_versions.py '{against}' {task}" for task in ("fast", "hopper", "ant")
        ],
        "flags": [
            f"speed_of_versions.py HEAD {task} --their-flags='{flags}'"
            for task in ("hopper", "ant")
            for flags in ("", AVX512)
        ],
        "discrete_steady": ["discrete.py steady --rounds 7 --output {page}"],
        "peers": [f"{peers} --peers rejax vmap brax"],
        "peers_wide": [f"{peers} --peers brax --networks brax --variants 2"],
    }


def write_page(name: str, commands: list[str]) -> None:
    page = PAGES / f"{name}.md"
    said = [measured_on()]
    for command in commands:
        script, *arguments = shlex.split(command.format(page=page.relative_to(ROOT)))
        shown = shlex.join(["python", f"benchmarks/{script}", *arguments])
        print(shown, file=sys.stderr, flush=True)
        done = subprocess.run(
            [sys.executable, str(Path(__file__).with_name(script)), *arguments],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            text=True,
            check=False,
        )
        print(done.stdout, flush=True)
        # A comparison with another commit exits with 1 if this one is slower.
        if done.returncode and not (done.returncode == 1 and "95% interval" in done.stdout):
            sys.exit(done.returncode)
        text = done.stdout.strip()
        said += [f"`{shown}`", text if text.startswith("|") else f"```\n{text}\n```"]
    if not any("{page}" in command for command in commands):
        write(page, "\n\n".join(said) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("sections", nargs="*", metavar="SECTION", help="default: all")
    parser.add_argument("--against", default=BEFORE, metavar="COMMIT", help="for section before")
    parser.add_argument("--rounds", type=int, default=3, help="rounds of the sections with peers")
    asked = parser.parse_args()
    every = sections(asked.against, asked.rounds)
    if unknown := [name for name in asked.sections if name not in every]:
        parser.error(f"no section {', '.join(unknown)}: there are {', '.join(every)}")
    for name in asked.sections or every:
        write_page(name, every[name])


if __name__ == "__main__":
    main()
