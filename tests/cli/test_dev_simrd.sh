#!/bin/bash
# ebb dev simrd: on a folder made here, and on the recorded runs where they are at hand. $1: the program, $2: sources.
. "$(dirname "$0")/common.sh"

# help, and the manual page that repeats it
for words in "" simrd; do
    expect 0 "$ebb" dev $words --help
    [[ $(<"$source_dir/docs/cli/dev.md") == *"$(<out)"* ]] || fail "docs/cli/dev.md does not repeat 'ebb dev $words --help'"
done

# The chain of four layers by hand (tests/unit/test_exec_simrd.c tells how): two budgets, three policies.
mkdir own
echo '{"overhead_limit": 2.0, "models": {}}' >own/golden.json
cat >own/linear.json <<'ROWS'
[{"n": 4, "budget": 8, "heuristic": "LRU", "runtime": "V2EagerOptimized", "result": "ok", "clock": 9, "remat_compute": 0,
  "peak_memory": 4, "evictions_pressure": 0, "evictions_release": 7, "remat_ops": 0, "ops_done": 8, "evict_hash": "cbf29ce484222325"},
 {"n": 4, "budget": 3, "heuristic": "DTREqClass", "runtime": "V2EagerOptimized", "result": "ok", "clock": 10, "remat_compute": 1,
  "peak_memory": 3, "evictions_pressure": 1, "evictions_release": 7, "remat_ops": 1, "ops_done": 8, "evict_hash": "4d25767f9dce13f5"},
 {"n": 4, "budget": 2, "heuristic": "LargestStorage", "runtime": "V2EagerOptimized", "result": "oom", "clock": 7, "remat_compute": 1,
  "peak_memory": 2, "evictions_pressure": 2, "evictions_release": 2, "remat_ops": 1, "ops_done": 6},
 {"n": 4, "budget": 2, "heuristic": "LRU", "runtime": "V2EagerOptimized", "result": "too_slow"}]
ROWS
expect 1 "$ebb" dev simrd own # one row has no hash: a missing number is not a pass
contains out "FAILED linear.json: n=4 budget=2 LargestStorage: evict_hash"
contains out "2 passed, 1 failed, 1 skipped"
hash=$(sed -n 's/.*evict_hash: expected , found \([0-9a-f]*\).*/\1/p' out)
sed -i "s/\"remat_ops\": 1, \"ops_done\": 6}/\"remat_ops\": 1, \"ops_done\": 6, \"evict_hash\": \"$hash\"}/" own/linear.json
expect 0 "$ebb" dev simrd own --dump rows.json
[ "$(tail -1 out)" = "3 passed, 0 failed, 1 skipped" ] || fail "last line: $(tail -1 out)"
[ "$(wc -l <rows.json)" = 3 ] || fail "$(wc -l <rows.json) rows dumped"
contains rows.json '"clock": 10'
expect 0 "$ebb" dev simrd own --json
contains out '"passed":3'

# a wrong number, an unknown heuristic, no rows, no folder
sed 's/"clock": 10/"clock": 11/' own/linear.json >own/l2 && mv own/linear.json own/keep && mv own/l2 own/linear.json
expect 1 "$ebb" dev simrd own
contains out "clock: expected 11, found 10"
sed 's/DTREqClass/DTREqKlass/' own/keep >own/linear.json
expect 1 "$ebb" dev simrd own
contains out "DTREqKlass"
contains out "2 passed, 1 failed, 1 skipped"
echo '[]' >own/linear.json
expect 1 "$ebb" dev simrd own
contains out "0 passed, 0 failed, 0 skipped"
echo '[' >own/linear.json
expect 2 "$ebb" dev simrd own
contains err "linear.json"
expect 1 "$ebb" dev simrd nowhere
expect 2 "$ebb" dev simrd

# the recorded runs of the published simulator
data=$source_dir/../shared/data/simrd
if [ -r "$data/golden.json" ]; then
    expect 0 "$ebb" dev simrd "$data"
    grep -qE '^[1-9][0-9]* passed, 0 failed, [0-9]+ skipped$' <(tail -1 out) || fail "recorded runs: $(tail -1 out)"
    echo "recorded runs: $(tail -1 out)"
else
    echo "SKIPPED: $data is absent"
fi

finish
