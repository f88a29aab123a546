"""Run a command of ablations and post what it prints to the summary of a GitHub job."""

import os
import shlex
import subprocess
import sys
import tempfile


def post(title: str, body: str, code: int) -> None:
    """Write to the summary of the job, and the exit code to the outputs of the step."""
    with open(os.environ["GITHUB_STEP_SUMMARY"], "a", encoding="utf-8") as summary:
        summary.write(f"### {title}\n\n{body}\n")
    with open(os.environ["GITHUB_OUTPUT"], "a", encoding="utf-8") as outputs:
        outputs.write(f"exit-code={code}\n")


def fenced(text: str) -> str:
    """Return text as a block of code."""
    return f"```\n{text.rstrip()}\n```\n"


def run(words: list[str]) -> tuple[int, str, str]:
    """Return a command's exit code, output and errors; errors are shown as they come."""
    errors = ""
    with (
        tempfile.TemporaryFile("w+", encoding="utf-8") as out,
        subprocess.Popen(
            ["ablations", *words], stdout=out, stderr=subprocess.PIPE, text=True
        ) as running,
    ):
        for line in running.stderr or ():
            print(line, end="", file=sys.stderr, flush=True)
            errors += line
        code = running.wait()
        out.seek(0)
        return code, out.read(), errors


def main() -> int:
    """Return the exit code for the job."""
    try:
        words = shlex.split(os.environ["COMMAND"])
        if not words:
            raise ValueError("it is empty")
        code, out, errors = run(words)
    except (ValueError, FileNotFoundError) as error:
        line = f"command: {error}: {os.environ['COMMAND']}"
        print(line, file=sys.stderr)
        post("ablations", fenced(line), 2)
        return 2
    print(out, end="", flush=True)
    is_markdown = out.lstrip().startswith(("- ", "|", "#")) or "\n|" in out
    body = out if is_markdown or not out.strip() else fenced(out)
    if errors and (code not in (0, 1, 3) or not out.strip()):
        body += fenced(errors)
    post(" ".join(["ablations", *words[:1]]), body, code)
    return 0 if code == 3 and os.environ["UNDECIDED"] != "true" else code


sys.exit(main())
