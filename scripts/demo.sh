#!/usr/bin/env bash
# The main job, live: a real one-node Kubernetes, Refrain installed by Helm, a pool of engines that grows and
# shrinks under traffic. With --keep it stays up until Ctrl-C; either way it leaves no trace.
set -euo pipefail
cd "$(dirname "$0")/.."

cache=${REFRAIN_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/refrain}
keep=()
for argument in "$@"; do
  case $argument in
    --keep) keep=(--keep) ;;
    *) echo "usage: demo.sh [--keep]" >&2; exit 2 ;;
  esac
done

bash e2e/cluster/build.sh > /dev/null
bash scripts/patiently.sh "compiling the demo (a few minutes the first time)" \
  cargo build --locked --package e2e --bin refrain-cluster
exec cargo run --quiet --locked --package e2e --bin refrain-cluster -- \
  run --images operator,router,stand-in-engine "${keep[@]}" -- \
  "$cache/python/bin/python" e2e/python/demo.py
