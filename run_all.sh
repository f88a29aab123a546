#!/usr/bin/env bash
# ./run_all.sh        sets up .venv, runs the studies at `quick`, writes tables, figures and the report
# ./run_all.sh test   sets up what the tests need and runs them; test --fast: those that take little time;
#                     test --all: also long forms, and tests of pages whose inputs (tests/digests.txt) are unchanged
#
# Needs Python 3.11 or newer and git. The first takes about eight minutes on two cores. Interrupted and started again, it goes on where it was.
set -euo pipefail
cd "$(dirname "$0")"

STUDIES=(gae value_coefficient value_clipping advantage_normalization prompt_normalization)
# requirements.lock: what the studies need; -test: that and what the tests need (rlax brings a nightly
# build of TensorFlow Probability); -tools: uv, faster than pip, and what builds this package.

say() { printf '\n\033[1m%s\033[0m\n' "$*"; }

find_python() {
  for candidate in "${PYTHON:-}" python3.12 python3.11 python3.13 python3; do
    if [ -n "$candidate" ] && command -v "$candidate" >/dev/null &&
      "$candidate" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 14))' 2>/dev/null; then
      command -v "$candidate"
      return
    fi
  done
  echo "run_all.sh: needs Python 3.11, 3.12 or 3.13; name one with PYTHON=/path/to/python" >&2
  exit 2
}

# Installs packages of Debian and Ubuntu, when whoever holds apt's locks has let go of them (apt-get
# itself does not wait for that of its lists); says apt's last line where it cannot.
apt_install() {
  local said waited=0 install="install -y -qq -o DPkg::Lock::Timeout=600 --no-install-recommends"
  # shellcheck disable=SC2086
  until said=$({ LC_ALL=C apt-get update -qq && LC_ALL=C apt-get $install "$@"; } 2>&1 >/dev/null); do
    if [[ "$said" != *"Could not get lock"* ]] || [ "$waited" -ge 600 ]; then
      tail -n 1 <<<"$said" >&2
      return 1
    fi
    [ "$waited" -gt 0 ] || echo "Waiting for another process that installs packages"
    sleep 5
    waited=$((waited + 5))
  done
}

make_venv() {
  local python
  python=$(find_python)
  "$python" -m venv .venv 2>/dev/null && return
  # Debian and Ubuntu ship venv apart from Python
  rm -rf .venv
  if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    apt_install python3-venv && "$python" -m venv .venv && return
  fi
  echo "run_all.sh: '$python -m venv' does not work: apt-get install python3-venv" >&2
  exit 2
}

set_up() { # a file of locked dependencies
  local lock=$1 installed=.venv/installed-$1
  [ -x .venv/bin/python ] || { say "Making .venv"; make_venv; }
  local wanted
  wanted=$(sha256sum "$lock" requirements-tools.lock pyproject.toml)
  if [ "$(cat "$installed" 2>/dev/null)" != "$wanted" ]; then
    say "Installing the locked dependencies"
    # Errors alone: pip also warns of folders in its settings that are not there
    .venv/bin/python -m pip install -qq --disable-pip-version-check --require-hashes --requirement requirements-tools.lock
    # Their bytecode too, or the first processes compile the same imports side by side.
    .venv/bin/uv pip install --quiet --python .venv/bin/python --compile-bytecode --require-hashes --requirement "$lock"
    .venv/bin/uv pip install --quiet --python .venv/bin/python --no-deps --no-build-isolation --editable .
    printf '%s' "$wanted" >"$installed"
  fi
}

# The tests of the report page skip without a browser.
have_browser() {
  command -v chromedriver >/dev/null && return
  if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    say "Installing Chromium for the tests of the report page"
    apt_install chromium chromium-driver || echo "Chromium could not be installed: those tests will be skipped"
  fi
}

# The tests on a cluster start a Slurm of their own; without it they skip (REQUIRE_SLURM=1: they fail).
have_slurm() {
  PATH="$PATH:/usr/sbin" command -v slurmctld >/dev/null && PATH="$PATH:/usr/sbin" command -v munged >/dev/null && return
  if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    say "Installing Slurm for the tests on a cluster"
    apt_install slurm-wlm munge || echo "Slurm could not be installed: those tests will be skipped (REQUIRE_SLURM=1: they fail)"
  else
    echo "No Slurm: the tests on a cluster are skipped (apt-get install slurm-wlm munge)"
  fi
}

# Whether a record, or the code that draws, is newer than what was drawn last
out_of_date() {
  [ ! -e results/.drawn ] || [ ! -e results/report/index.html ] ||
    [ -n "$(find ablations results/cells \( -name '*.py' -o -name record.json \) -newer results/.drawn -print -quit)" ]
}

if [ "${1:-}" = test ]; then set_up requirements-test.lock; else set_up requirements.lock; fi
export PATH="$PWD/.venv/bin:$PATH"
unset PYTHONDONTWRITEBYTECODE # or every process compiles its imports anew: seconds each
case "${1:-}" in
  "")
    say "Running ${STUDIES[*]} at the quick profile"
    # The untrained policies too: effects are in % of what the baseline learned beyond them. 1: a run failed; tables say so
    ablations run "${STUDIES[@]}" trivial_policies --profile quick || [ $? = 1 ]
    if out_of_date; then
      say "Tables, figures and the report"
      for format in markdown latex csv; do
        ablations table "${STUDIES[@]}" --profile quick --format "$format" --output results/tables
      done
      ablations figure "${STUDIES[@]}" --profile quick >/dev/null &
      ablations report "${STUDIES[@]}" --profile quick >/dev/null
      wait $!
      touch results/.drawn
    fi
    say "Results of five seeds"
    python - "${STUDIES[@]}" <<'END'
import sys
from ablations import table
for study in sys.argv[1:]:
    print(f"{study}: {table(study, profile='quick').attrs['summary']}")
END
    say "Written"
    echo "report   $PWD/results/report/index.html"
    echo "tables   $PWD/results/tables, figures $PWD/results/figures"
    echo "answers  $PWD/results/README.md: the published ones, of many seeds (or: ablations show WORD)"
    ;;
  test)
    shift
    if [ "${1:-}" != --fast ]; then
      have_browser
      have_slurm
    fi
    say "Checking style, and types beside the tests"
    ruff check .
    ruff format --check .
    types=$(mktemp)
    mypy >"$types" 2>&1 &
    mypy=$!
    say "Running the tests"
    # Their hundred thousand small files, a gigabyte, lie in memory where it has room for them.
    if [ "$(df --output=avail --block-size=1G /dev/shm 2>/dev/null | tail -1)" -ge 8 ] 2>/dev/null; then
      export PYTEST_DEBUG_TEMPROOT=/dev/shm
    fi
    # More processes than cores: many tests wait, for a cluster or for a process that is killed.
    code=0
    python -m pytest --numprocesses 6 --no-loadscope-reorder "$@" || code=$?
    wait "$mypy" || { cat "$types"; code=1; }
    rm "$types"
    exit "$code"
    ;;
  *)
    echo "run_all.sh: unknown argument '$1': give none, or test" >&2
    exit 2
    ;;
esac
