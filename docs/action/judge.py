"""Run a command of ablations and post what it prints to the summary of a GitHub job."""

import os
import shlex
import subprocess
import sys

try:
    words = shlex.split(os.environ["COMMAND"])
except ValueError as error:
    sys.exit(f"command: {error}")
done = subprocess.run(["ablations", *words], stdout=subprocess.PIPE, text=True, check=False)
print(done.stdout, end="", flush=True)
is_markdown = done.stdout.lstrip().startswith(("- ", "|", "#")) or "\n|" in done.stdout
body = done.stdout if is_markdown else f"```\n{done.stdout}```\n"
with open(os.environ["GITHUB_STEP_SUMMARY"], "a", encoding="utf-8") as summary:
    summary.write(f"### ablations {words[0] if words else ''}\n\n{body}\n")
with open(os.environ["GITHUB_OUTPUT"], "a", encoding="utf-8") as outputs:
    outputs.write(f"exit-code={done.returncode}\n")
kept = done.returncode == 3 and os.environ["UNDECIDED"] != "true"
sys.exit(0 if kept else done.returncode)
