#!/usr/bin/env bash
# A slice of bench/default_plans: at its floor a long chain of recurrent cells trains by checkpoints of blocks, not by the
# game that found the floor. $1 = ebb, $2 = source folder.
set -u
ebb=$1
bench=$(dirname "$ebb")/bench/bench_default
if [ ! -x "$bench" ]; then
    echo "skipped: $bench is not built"
    exit 0
fi
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

"$ebb" model trace dtr_lstm --batch 2 --set steps=200 --opt momentum=0.9 --threads 1 -o "$dir/lstm.trace" >/dev/null || exit 1
"$bench" --alone --floor "$dir/lstm.trace" >"$dir/table" # its exit code is about seconds
awk -F'|' '/lstm.trace/ { rows++; slow += $5 > 1.5 } END { exit rows != 1 || slow }' "$dir/table" ||
    { cat "$dir/table"; echo "FAIL: the floor's game (5.0 times the step) instead of blocks (1.3)"; exit 1; }
exit 0
