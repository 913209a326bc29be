#!/bin/bash
# ebb sim, as a user types it. $1: the program, $2: the source folder.
. "$(dirname "$0")/common.sh"

rows() {
    checks=$((checks + 1))
    [ "$(wc -l <out)" = "$1" ] || fail "$(wc -l <out) rows instead of $1"
}
# field KEY: its value in every row of out
field() { sed -E "s/.*\"$1\": (\"([^\"]*)\"|([^,}]*)).*/\2\3/" out; }
# everything that may not change from run to run
same_part() { sed -E 's/"seconds": [^,}]*//' out; }

# help, and the manual page that repeats it
expect 0 "$ebb" sim --help
contains out "Usage: ebb sim"
contains out "Examples:"
[[ $(<"$source_dir/docs/cli/sim.md") == *"$(<out)"* ]] || fail "docs/cli/sim.md does not repeat 'ebb sim --help'"

# policies that see the future copy: they want a tier
expect 2 "$ebb" sim small.trace --policy belady --ratio 0.5
contains err "belady copies to lower tiers: add --host or --file"

"$ebb" trace make transformer --layers 2 --bytes 64KiB --weight-bytes 32KiB -o small.trace >/dev/null || fail make
"$ebb" trace make random --ops 150 --seed 5 --views --mutation --multi-output --workspace --once --spread 1 -o random.trace >/dev/null
"$ebb" trace make chain --layers 20 -o chain.log >/dev/null 2>&1

# the one that prices both ways back does without, but not by the published rules
expect 0 "$ebb" sim chain.log --policy unified --ratio 0.6
expect 0 "$ebb" sim chain.log --policy unified,belady --ratio 0.6 --host 64MiB --link host=10
expect 2 "$ebb" sim chain.log --policy unified --ratio 0.8 --rules simrd
contains err "policy that looks ahead"

# JSON: one object per row, with the keys other tools rely on
expect 0 "$ebb" sim small.trace chain.log --policy dtr,dtr_eq --ratio 1,0.6,0.4 --json -j1
rows 12
keys="log policy rules runtime dealloc limit seed ratio budget_bytes status overhead base_ns clock_ns remat_ns peak_bytes
sum_bytes floor_bytes evictions_pressure evictions_release remat_ops swapped_bytes evict_hash seconds"
for key in $keys; do
    [ "$(grep -c "\"$key\": " out)" = 12 ] || fail "key $key is not in every row"
    checks=$((checks + 1))
done
grep -qvE '^\{"log": .*\}$' out && fail "--json is not one object per line"
[ "$(field policy | sort -u | tr '\n' ' ')" = "dtr dtr_eq " ] || fail "policies: $(field policy | tr '\n' ' ')"
[ "$(field rules | sort -u)" = ebb ] && [ "$(field runtime | sort -u)" = ebb ] || fail "rules, runtime"
[ "$(field ratio | head -3 | tr '\n' ' ')" = "1 0.6 0.4 " ] || fail "ratios: $(field ratio | head -3 | tr '\n' ' ')"
field evict_hash | grep -qvE '^[0-9a-f]{16}$' && fail "evict_hash is not 16 hex digits"
field status | grep -qvE '^(ok|oom|thrashed|refused)$' && fail "statuses: $(field status | sort -u | tr '\n' ' ')"
# ok rows keep the budget, take at least their time, and a larger budget shows the smaller ratio's bytes
paste -d' ' <(field status) <(field peak_bytes) <(field budget_bytes) <(field clock_ns) <(field base_ns) <(field floor_bytes) |
    awk '$1 == "ok" && ($2 > $3 || $4 < $5) { bad = 1 } $1 == "refused" && $3 >= $6 { bad = 1 } END { exit bad }' ||
    fail "a row breaks its budget, its clock or its floor"
checks=$((checks + 6))

# at the peak nothing is evicted; the hash of no victims is FNV's offset
expect 0 "$ebb" sim small.trace -p lru -r 2 --json
[ "$(field status) $(field overhead) $(field evictions_pressure) $(field evict_hash)" = "ok 1 0 cbf29ce484222325" ] ||
    fail "unlimited: $(cat out)"

# statuses: refused below the floor, oom without looking for one, thrashed above the limit
expect 1 "$ebb" sim small.trace -p dtr -b 1KiB --json
[ "$(field status)" = refused ] || fail "status below the floor: $(field status)"
expect 1 "$ebb" sim small.trace -p dtr -b 1KiB --json --no-floor
[ "$(field status) $(field floor_bytes)" = "oom null" ] || fail "status without a floor: $(field status)"
contains out '"why": "weights and other persistent storages do not fit'
expect 1 "$ebb" sim chain.log -p largest -r 0.35 --limit 1.001 --json --no-floor
[ "$(field status)" = thrashed ] || fail "status above the limit: $(field status)"
expect 1 "$ebb" sim small.trace -p none -r 0.5 --json --no-floor
[ "$(field status) $(field policy)" = "oom none" ] || fail "policy none at half the peak: $(field status)"
# one surviving row is enough for exit 0
expect 0 "$ebb" sim small.trace -p dtr -r 1,0.01 --json
[ "$(field status | tr '\n' ' ')" = "ok refused " ] || fail "statuses: $(field status | tr '\n' ' ')"

# rules simrd: clock starts at 1, peak is a byte sum, published names work
expect 0 "$ebb" sim chain.log --policy DTREqClass,LRU --ratio 0.9,0.5 --rules simrd --json
rows 4
[ "$(field runtime | sort -u)" = V2EagerOptimized ] || fail "runtime $(field runtime | sort -u)"
[ "$(field policy | sort -u | tr '\n' ' ')" = "dtr_eq lru " ] || fail "aliases: $(field policy | tr '\n' ' ')"
paste -d' ' <(field status) <(field clock_ns) <(field base_ns) <(field remat_ns) |
    awk '$1 == "ok" && $2 != $3 + $4 + 1 { exit 1 }' || fail "clock is not 1 + base + remat"
expect 0 "$ebb" sim chain.log -p dtr_unopt -r 0.9 --rules simrd --runtime V1 --json
[ "$(field runtime) $(field dealloc)" = "V1 banish" ] || fail "V1: $(cat out)"
expect 0 "$ebb" sim chain.log -p dtr_eq -r 1 --rules simrd --dealloc ignore --json
[ "$(field dealloc) $(field evictions_release)" = "ignore 0" ] || fail "ignore: $(cat out)"

# the same rows for one and two jobs, twice in a row, and however often they are repeated
expect 0 "$ebb" sim random.trace small.trace --policy all --ratio 0.9,0.6 --json -j1
same_part >one
expect 0 "$ebb" sim random.trace small.trace --policy all --ratio 0.9,0.6 --json -j2
same_part >two
cmp -s one two || fail "-j1 and -j2 give different rows: $(diff one two | head -2)"
expect 0 "$ebb" sim random.trace small.trace --policy all --ratio 0.6,0.9 --json -j2 --repeat 3
same_part | sort >three
sort one | cmp -s - three || fail "--repeat or the order of budgets changes rows"
expect 0 "$ebb" sim random.trace -p random -r 0.7 --seed 1 --json --no-floor
same_part >one
expect 0 "$ebb" sim random.trace -p random -r 0.7 --seed 1 --json --no-floor
same_part >two
cmp -s one two || fail "the same seed gives different rows"

# swapping, sampling, small tensors
expect 0 "$ebb" sim small.trace -p lru -r 0.9 --host 64MiB --host-rate 24 --file 1GiB --latency 100 --json
[ "$(field swapped_bytes)" -gt 0 ] || fail "nothing was swapped: $(cat out)"
[[ "$(field lower_bound)" =~ ^[0-9] && "$(field gap)" =~ ^[0-9] ]] || fail "no bound with tiers: $(cat out)"
expect 0 "$ebb" sim random.trace -p dtr -r 0.8 --sampling --ignore-small --json

# human output: a table with one line per policy, failures marked; one row tells everything
expect 0 "$ebb" sim small.trace --policy dtr,lru --ratio 1,0.5,0.01
contains out "policy"
contains out "refused"
grep -qE '^dtr +1\.0' out || fail "no overhead in the table: $(cat out)"
expect 0 "$ebb" sim small.trace -p dtr -b 1GiB
contains out "highest address"

# usage errors name what is wrong and the nearest name
expect 2 "$ebb" sim small.trace -p dtr_eqq -r 0.5
contains err "did you mean dtr_eq"
expect 2 "$ebb" sim small.trace -r 0.5
contains err "--policy"
expect 2 "$ebb" sim small.trace -p dtr
contains err "--ratio or --budget"
expect 2 "$ebb" sim small.trace -p dtr -r 0.5 -b 1MiB
contains err "--ratio or --budget"
expect 2 "$ebb" sim small.trace -p dtr -r 0
contains err "--ratio"
expect 2 "$ebb" sim small.trace -p dtr -r nan
expect 2 "$ebb" sim small.trace -p dtr -b 12parsec
contains err "--budget"
expect 2 "$ebb" sim small.trace -p dtr -r 0.5 --rules simrdd
contains err "ebb, simrd"
expect 2 "$ebb" sim small.trace -p dtr -r 0.5 --dealloc banish
contains err "--rules simrd"
expect 2 "$ebb" sim small.trace -p dtr -r 0.5 --runtime V2
expect 2 "$ebb" sim chain.log -p dtr -r 0.5 --rules simrd --runtime V1
contains err "V1"
expect 2 "$ebb" sim chain.log -p dtr -r 0.5 --rules simrd --host 1GiB
expect 2 "$ebb" sim small.trace -p dtr -r 0.5 --repeat 0
expect 2 "$ebb" sim small.trace -p dtr -r 0.5 --polciy lru
contains err "did you mean --policy"
expect 2 "$ebb" sim small.trace -p ilp -r 0.5
contains err "planner"
expect 2 "$ebb" sim -p dtr -r 0.5
expect 1 "$ebb" sim random.trace -p dtr -r 0.5 --rules simrd
contains err "writes in place"

# numbers out of range and options without effect are refused, not ignored
refused() { # refused WORD OPTION...: exit 2, and the message has WORD
    local word=$1
    shift
    expect 2 "$ebb" sim small.trace -p dtr -r 0.5 "$@"
    contains err "$word"
}
refused ">= 0, <= " --limit -1
refused "allowed: 0, or" --limit 0.5
refused ">= 1, <= " --jobs 0
refused ">= 1, <= " --repeat 0
refused "a number >= 0.0001, <= " --copy-rate 0
refused ">= 0, <= " --seed -1
refused "needs --host BYTES" --host-rate 5
refused "--link needs --host BYTES or --file BYTES" --link host=5
refused "allowed: host=GB/s, file=GB/s, with rates >= 1e-4, <= 1e12" --host 1MiB --link disk=5
refused "--host-rate does nothing beside --link" --host 1MiB --link host=5 --host-rate 5
refused "needs --file BYTES" --file-rate 5
refused "needs --host BYTES or --file BYTES" --latency 5
refused "needs --rules ebb" --rules simrd --copy-rate 3
refused "needs --rules ebb" --rules simrd --sampling
refused "needs --rules ebb" --rules simrd --floor
refused "--no-floor" --floor --no-floor

# bad files: where, and exit 2; missing ones exit 1
head -c 200 small.trace >cut.trace
expect 2 "$ebb" sim cut.trace -p dtr -r 0.5
contains err "cut.trace"
echo "not a trace" >text
expect 2 "$ebb" sim text -p dtr -r 0.5
expect 1 "$ebb" sim missing.trace -p dtr -r 0.5
contains err "missing.trace"
: >empty
expect 2 "$ebb" sim empty -p dtr -r 0.5

# the chart goes to a file of the kind its name says
expect 0 "$ebb" sim small.trace -p dtr,lru -r 1,0.8,0.6,0.4 --chart chart.svg --no-floor
grep -q "<svg" chart.svg || fail "chart.svg is no SVG"
expect 2 "$ebb" sim small.trace -p dtr -r 1,0.5 --chart chart.xyz --no-floor

# links: --link and its aliases say the same; the floor is with tiers; stalls are told
expect 0 "$ebb" sim small.trace -p lru -r 0.9 --host 64MiB --host-rate 3 --json
same=$(tail -n 1 out | sed 's/"seconds": [^,]*, //')
expect 0 "$ebb" sim small.trace -p lru -r 0.9 --host 64MiB --link host=3 --json
[ "$(tail -n 1 out | sed 's/"seconds": [^,]*, //')" = "$same" ] || fail "--link host=3: $(tail -n 1 out), not $same"
contains out '"host": {"bytes": 67108864, "rate": 3,'
contains out '"stall_ns":'
with=$(field floor_bytes)
expect 0 "$ebb" sim small.trace -p lru -r 0.9 --json
[ "$with" -le "$(field floor_bytes)" ] || fail "the floor with a host is $with, $(field floor_bytes) without"
expect 0 "$ebb" sim small.trace -p lru -r 0.9 --host 64MiB --link host=3
contains out "; host 64.0 MiB at 3 GB/s"
finish
