"""What `pip install rl-ablations` brings, and that it does what it is for.

    python benchmarks/base_install.py [--beside NAME ...]

makes a fresh environment, installs this checkout without extras, counts packages and MB, and says
how long an import of the fixture and a table take. Then it adds pytest and runs what docs/ shows:
the fixture's example twice, a study of a NumPy script up to its table, a gate, and a table and a
page of CSV files. --beside: what these packages would take, in an environment of their own.
"""

from __future__ import annotations

import argparse
import re
import resource
import subprocess
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).parents[1]
ENVIRONMENTS_OWN = ("pip", "setuptools", "pkg_resources", "_distutils_hack", "distutils-precedence")
UPDATE = ("--learning-curve-update", "--learning-curve-reason", "first version")


def made(folder: Path, *packages: str) -> Path:
    """An environment with these packages; its bin/."""
    venv.create(folder, with_pip=True)
    run(folder / "bin" / "python", "-m", "pip", "install", "--quiet", "--no-compile", *packages)
    return folder / "bin"


def run(*command: object, cwd: Path = ROOT) -> str:
    done = subprocess.run(
        [str(one) for one in command], cwd=cwd, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def sizes(bin: Path) -> dict[str, float]:
    """MB of what lies in site-packages, without bytecode, a package's libraries with it."""
    (site,) = bin.parent.glob("lib/python*/site-packages")
    found: dict[str, float] = {}
    for path in site.iterdir():
        name = re.split(r"[.-]", path.name)[0]
        if not path.name.startswith(ENVIRONMENTS_OWN):
            files = [one for one in (path, *path.rglob("*")) if one.is_file()]
            size = sum(one.stat().st_size for one in files if one.suffix != ".pyc")
            found[name] = found.get(name, 0.0) + size / 1e6
    return dict(sorted(found.items(), key=lambda item: -item[1]))


def told(bin: Path) -> None:
    count = len(run(bin / "python", "-m", "pip", "freeze").splitlines())
    each = sizes(bin)
    large = ", ".join(f"{name} {size:.0f}" for name, size in each.items() if size >= 10)
    print(f"    {count} packages, {sum(each.values()):.0f} MB ({large})")


def best(*command: object, cwd: Path = ROOT) -> float:
    """Seconds of one core, the best of five. On an idle machine one waits as long."""
    found = []
    for _ in range(5):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        run(*command, cwd=cwd)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        found.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return min(found)


def copied(page: str, folder: Path) -> None:
    """Writes the files that a page of docs/ shows."""
    text = (ROOT / "docs" / page).read_text()
    for name, content in re.findall(r"^```\w+\n# (\w+\.\w+)\n(.*?)^```$", text, re.M | re.S):
        (folder / name).write_text(content)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--beside", nargs="*", default=[], help="packages to measure as well")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        print("rl-ablations")
        bin = made(folder / "base", str(ROOT))
        told(bin)
        python = bin / "python"
        run(python, "-m", "pip", "install", "--quiet", "pytest")
        for what in ("pass", "import ablations.regression.fixture"):
            print(f"    python -c {what!r}: {best(python, '-c', what):.2f} s")
        copied("learning-curves.md", folder)
        run(bin / "pytest", "-q", "test_bandit.py", *UPDATE, cwd=folder)
        print("    pytest test_bandit.py:", run(bin / "pytest", "-q", "test_bandit.py", cwd=folder))
        copied("any-trainer.md", folder)
        study = folder / "norm_adv.toml"
        study.write_text(study.read_text().replace("python train.py", f"{python} train.py"))
        run(bin / "ablations", "run", "norm_adv.toml", "--quiet", cwd=folder)
        seconds = best(bin / "ablations", "table", "norm_adv", cwd=folder)
        print(f"    ablations table norm_adv, of 16 records: {seconds:.2f} s")
        print(run(bin / "ablations", "table", "norm_adv", cwd=folder))
        copied("gate.md", folder)
        gate = (bin / "ablations", "gate", "--against", "--lr 0.6", "--better", "lower")
        flags = ("--metric", "loss", "--margin", "10%", "--", python, "fit.py", "--seed", "{seed}")
        print(run(*gate, *flags, cwd=folder))
        copied("own-runs.md", folder)
        run(python, "runs.py", cwd=folder)
        pattern = ("--pattern", "{run}/seed{seed}", "--baseline", "ppo")
        run(bin / "ablations", "import", "logs", "--study", "mine", *pattern, cwd=folder)
        print(run(bin / "ablations", "table", "mine", cwd=folder))
        print(run(bin / "ablations", "report", "mine", cwd=folder))
        if options.beside:
            print(" ".join(options.beside))
            told(made(folder / "beside", *options.beside))


if __name__ == "__main__":
    main()
