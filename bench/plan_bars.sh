#!/usr/bin/env bash
# Bars of the planner, in this order: the first plan of a 2,000-op training step (below 50 ms), the plan after two seconds
# against its bound (1.03 x) and against a long run (1 %), the gaps of the reference networks, the time of a full sweep.
# Usage: bench/plan_bars.sh EBB [-l SECONDS] [TRACE...]     run from the root of the tree
#   -l SECONDS   length of the long run (default 20; 600 is the bar)
#   TRACE...     other steps to plan, for example a recorded one
set -eu
ebb=$1
shift
long=20
if [ "${1:-}" = -l ]; then
    long=$2
    shift 2
fi
graphs=tests/golden/checkmate/graphs
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

"$ebb" trace make transformer --layers 41 -o "$dir/transformer41.trace" >/dev/null
"$ebb" trace make chain --layers 500 --bytes 1MiB -o "$dir/chain500.trace" >/dev/null
for trace in "$dir/transformer41.trace" "$dir/chain500.trace" "$@"; do
    echo "== $(basename "$trace"): first plan, 2 s, $long s without stopping at a gap"
    "$ebb" plan "$trace" -r 0.7,0.5,0.3 --effort 0 -j 1
    "$ebb" plan "$trace" -r 0.7,0.5,0.3 --time-limit 2 -j 1
    "$ebb" plan "$trace" -r 0.7,0.5,0.3 --time-limit "$long" --gap 0 --effort 3
done

ratios=1
for j in $(seq 1 31); do
    ratios=$ratios,$(awk "BEGIN { print 1 - $j / 64 }")
done
for name in vgg16_b256_flops vgg16_b256_roofline mobilenet_b512_flops mobilenet_b512_roofline unet3_b8_flops \
    unet3_b8_roofline; do
    echo "== $name: 32 budgets, gaps in per cent (bar 1.5)"
    "$ebb" plan "$graphs/$name.json" -r "$ratios" | awk 'NR > 1 { print $3, $4, $5, $6, $7, $8 }'
done
for name in resnet50_b256_flops densenet_6_12_b32_roofline; do
    echo "== $name: from 1 to 0.5 (bar 3)"
    "$ebb" plan "$graphs/$name.json" -r 1,0.9,0.8,0.7,0.6,0.5
done
echo "== a full sweep (bar 600 s on 2 cores)"
time "$ebb" plan sweep "$graphs/mobilenet_b512_roofline.json" -o "$dir/sweep.csv"
