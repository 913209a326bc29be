#!/usr/bin/env bash
# A slice of bench/bench_memory_grid: on a real training step the default with a host is never clearly above recomputing
# or copying alone, never slower for a faster link, and meets its bars. $1 = ebb, $2 = source folder.
set -u
ebb=$1
grid=$(dirname "$ebb")/bench/bench_memory_grid
if [ ! -x "$grid" ]; then
    echo "skipped: $grid is not built"
    exit 0
fi
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

"$ebb" model trace cifar_resnet20 --batch 64 --opt momentum=0.9 --threads 2 -o "$dir/cifar_resnet20.trace" >/dev/null || exit 1
"$grid" -b 0 -r 0.3,0.6 -l 0.1,1,10 "$dir/cifar_resnet20.trace" >"$dir/table" || { cat "$dir/table"; echo "FAIL: a row misses"; exit 1; }
grep -q '^6 rows, 0 miss' "$dir/table" || { cat "$dir/table"; echo "FAIL: not six rows"; exit 1; }
"$grid" "$dir/none.trace" >/dev/null 2>&1 && { echo "FAIL: a file that is not there"; exit 1; }
exit 0
