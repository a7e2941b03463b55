#!/usr/bin/env bash
# Runs a command and says every 20 seconds that it is still at it: patiently.sh WHAT COMMAND...
set -u
what=$1
shift
(
  while sleep 20; do printf '[%2d:%02d] still %s\n' $((SECONDS / 60)) $((SECONDS % 60)) "$what" >&2; done
) &
ticker=$!
trap 'kill "$ticker" 2> /dev/null' EXIT
"$@"
