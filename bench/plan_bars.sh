#!/usr/bin/env bash
# Bars of the planner: first plan of a 2,000-op training step, two seconds against a long run, and a full sweep.
# Usage: bench/plan_bars.sh EBB [GRAPH...]
set -eu
ebb=$1
shift
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

"$ebb" trace make transformer --layers 41 -o "$dir/gpt.trace" >/dev/null
"$ebb" trace make chain --layers 500 --bytes 1MiB -o "$dir/chain.trace" >/dev/null
for trace in "$dir/gpt.trace" "$dir/chain.trace"; do
    echo "== $(basename "$trace"): first plan, 2 s, 20 s"
    for ratio in 0.7 0.5; do
        "$ebb" plan "$trace" -r $ratio --effort 0
        "$ebb" plan "$trace" -r $ratio --time-limit 2
        "$ebb" plan "$trace" -r $ratio --time-limit 20
    done
done
for graph in "$@"; do
    echo "== sweep of $graph"
    time "$ebb" plan sweep "$graph" -o "$dir/sweep.csv"
done
