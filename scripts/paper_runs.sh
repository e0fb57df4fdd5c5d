#!/usr/bin/env bash
# Runs the queue of scripts/paper_runs.yaml, two cells at a time, from a copy of the last commit in runs/paper/code:
# work in this checkout may go on meanwhile, and every result names a commit that is there.
#   scripts/paper_runs.sh [--workers 4] [--budget 12h]   start, or go on where it was stopped
#   scripts/paper_runs.sh --list                         how far every cell is
# Unfinished cells are kept in runs/reproduce, finished ones in results/. To go on with newer code, remove the copy:
# git worktree remove runs/paper/code
set -euo pipefail
cd "$(dirname "$0")/.."
code=runs/paper/code
[ -d "$code" ] || git worktree add --quiet --detach "$code" HEAD
echo "code: $(git -C "$code" log -1 --format='%h %s')" >&2
export PYTHONPATH="$PWD/$code/src"
exec .venv/bin/python -m orderfree reproduce --queue scripts/paper_runs.yaml --workers 2 "$@"
