#!/usr/bin/env bash
# ebb plan: rows, proofs, files, exit codes. $1 = ebb, $2 = source folder.
set -u
ebb=$1
graphs=$2/tests/golden/checkmate/graphs
failures=0

fail() {
    echo "FAIL: $*"
    failures=$((failures + 1))
}

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

# A proven optimum, every field of the row, and the plan as a file.
row=$("$ebb" plan "$graphs/unit_linear_8.json" --ratio 0.5 --gap 0 --json -o "$dir/p.plan") || fail "plan exits $?"
for field in graph planner ratio budget_bytes status cost overhead peak_bytes height_bytes lower_bound bound_class \
    optimal gap seconds; do
    [[ $row == *"\"$field\""* ]] || fail "no field $field in $row"
done
[[ $row == *'"cost": 22'* && $row == *'"optimal": true'* && $row == *'"bound_class": "flow"'* ]] || fail "row: $row"
shown=$("$ebb" plan show "$dir/p.plan" --trace "$graphs/unit_linear_8.json") || fail "show exits $?"
[[ $shown == *"overhead 1.294118"* && $shown == *"5 again"* ]] || fail "show: ${shown##*$'\n'}"
"$ebb" plan show "$dir/p.plan" --trace "$graphs/unit_linear_4.json" >/dev/null 2>"$dir/err"
[ $? = 2 ] || fail "a plan for another trace is accepted"

# The schedule as a matrix: a square per run and per op kept, 22 of 17 ops run, 5 of them again.
"$ebb" plan show "$dir/p.plan" --trace "$graphs/unit_linear_8.json" --chart "$dir/p.svg" || fail "show --chart exits $?"
squares() {
    grep -c . < <(grep -o 'M[0-9. ]*h[0-9.]*v' < <(grep "fill=\"$1\"" "$dir/p.svg"))
}
[ "$(squares '#33588f')" = 17 ] || fail "$(squares '#33588f') first runs drawn instead of 17"
[ "$(squares '#d55e00')" = 5 ] || fail "$(squares '#d55e00') reruns drawn instead of 5"
[ "$(squares '#a6cee3')" -gt 20 ] || fail "what is kept is not drawn"
"$ebb" plan show "$dir/p.plan" --trace "$graphs/unit_linear_8.json" --chart "$dir/p.gif" 2>/dev/null
[ $? = 2 ] || fail "a chart of an unknown format does not exit 2"

# The figure: stages, the ILP under a limit, every format.
"$ebb" plan figure "$graphs/unit_linear_8.json" "$graphs/unet2_b8_flops.json" --dir "$dir/fig" --points 4 --segments 10 \
    --time-limit 2 --with ilp --ilp-limit 5 --ilp-points 2 >"$dir/table" 2>"$dir/err" || fail "figure exits $?: $(<"$dir/err")"
for file in budget_sweep.svg slowdowns.csv unet2_b8_flops.ilp.csv unet2_b8_flops.simrd.csv; do
    [ -s "$dir/fig/$file" ] || fail "figure writes no $file"
done
if command -v rsvg-convert >/dev/null; then
    [ -s "$dir/fig/budget_sweep.png" ] && [ -s "$dir/fig/budget_sweep.pdf" ] || fail "figure writes no PNG, PDF"
fi
grep -q "Checkmate ILP" "$dir/fig/budget_sweep.svg" || fail "the ILP is not drawn"
mkdir "$dir/same"
cp "$graphs/unet2_b8_flops.json" "$dir/same/unit_linear_8.json"
"$ebb" plan figure "$graphs/unit_linear_8.json" "$dir/same/unit_linear_8.json" --dir "$dir/fig" --stage plot >/dev/null 2>"$dir/err"
[ $? = 2 ] && grep -q "have one name" "$dir/err" || fail "two graphs of one name: $(<"$dir/err")"
"$ebb" plan figure --dir "$dir/fig" --with lp 2>/dev/null
[ $? = 2 ] || fail "--with lp does not exit 2"
# Without graphs: the published networks, from results that lie there.
cp -r "$2/data/budget_sweep" "$dir/published"
"$ebb" plan figure --dir "$dir/published" --stage plot >"$dir/table" || fail "the published figure exits $?"
[ "$(grep -c 'batch' "$dir/table")" -ge 16 ] || fail "rows of the published figure: $(wc -l <"$dir/table")"
grep -q '>16 GB<' "$dir/published/budget_sweep.svg" || fail "no line at 16 GB"

# Nothing fits: exit 1. Several planners and budgets: one row each.
"$ebb" plan "$graphs/unit_linear_8.json" --budget 2 >/dev/null
[ $? = 1 ] || fail "an impossible budget does not exit 1"
count=$("$ebb" plan "$graphs/unet2_b8_flops.json" -p all,last,chen_sqrtn,griewank -r 1.2,0.8 --json | wc -l)
[ "$count" = 8 ] || fail "$count rows instead of 8"
"$ebb" plan "$graphs/unit_linear_8.json" -r 0.5 -p bset 2>"$dir/err"
[ $? = 2 ] || fail "an unknown planner does not exit 2"
[[ $(<"$dir/err") == *"did you mean 'best'"* ]] || fail "no nearest planner"
"$ebb" plan "$graphs/unit_linear_8.json" 2>/dev/null
[ $? = 2 ] || fail "no budget does not exit 2"

# The step of an experiment file, as for ebb sim.
cat >"$dir/exp.yaml" <<'YAML'
entrypoint: ebb:language_model
model: {name: gpt2_124M, layers: 2, width: 32, heads: 2, positions: 16, vocabulary: 64}
hyperparameters: {global_batch_size: 2}
opt: {name: SGD, lr: 0.1}
memory: {threads: 1}
searcher: {name: single, metric: validation_loss, max_steps: 1}
YAML
"$ebb" plan "$dir/exp.yaml" --ratio 0.9 --effort 0 -o "$dir/exp.plan" >/dev/null || fail "no plan of an experiment file"
"$ebb" plan show "$dir/exp.plan" --trace "$dir/exp.yaml" >/dev/null || fail "its plan is not shown"
"$ebb" trace convert "$dir/exp.yaml" -o "$dir/exp.trace" >/dev/null || fail "its step is not converted"
"$ebb" plan show "$dir/exp.plan" --trace "$dir/exp.trace" >/dev/null || fail "the step is another one in a file"
# a plan keeps its own budget, and lower tiers have an end
sed 's/^budget .*/budget 0/' "$dir/exp.plan" >"$dir/none.plan"
for more in "" "--chart $dir/none.svg"; do
    "$ebb" plan show "$dir/none.plan" --trace "$dir/exp.trace" $more >/dev/null 2>"$dir/err"
    [ $? = 2 ] && grep -q "budget 0" "$dir/err" || fail "a plan in no memory is shown: $(cat "$dir/err")"
done
"$ebb" plan "$dir/exp.trace" -p floor --ratio 0.6 --host-bytes 1MiB --link host=2 -o "$dir/low.plan" >/dev/null || fail "no plan with copies"
"$ebb" plan show "$dir/low.plan" --trace "$dir/exp.trace" >/dev/null || fail "a plan with copies is not shown"
# it tells tiers, and the time that copies take: that of the planner
"$ebb" plan show "$dir/low.plan" --trace "$dir/exp.trace" | grep -q " send .* in host memory at " || fail "no tier of a copy"
"$ebb" plan "$dir/exp.trace" -p belady -r 0.9 --host 64MiB --link host=0.01 --json -o "$dir/slow.plan" >"$dir/row" || fail "no plan over a slow link"
want=$(sed -E 's/.*"overhead": ([0-9]+\.[0-9]{0,4}).*/\1/' "$dir/row")
shown=$("$ebb" plan show "$dir/slow.plan" --trace "$dir/exp.trace" --link host=0.01 | tail -n 1)
[[ $shown == *"with them overhead $want"* ]] || fail "planned: overhead $want, shown: $shown"
"$ebb" plan show "$dir/slow.plan" --trace "$dir/exp.trace" --link file=1 >/dev/null 2>"$dir/err"
[ $? = 2 ] && grep -q "add --link host=GB/s" "$dir/err" || fail "copies over no link: $(cat "$dir/err")"
# steps behind the last op that runs
"$ebb" plan show "$dir/low.plan" --trace "$dir/exp.trace" --chart "$dir/low.svg" || fail "a plan with copies is not drawn"
awk '/^send/ && !done { $4 = "@4611686018427387648"; done = 1 } { print }' "$dir/low.plan" >"$dir/far.plan"
"$ebb" plan show "$dir/far.plan" --trace "$dir/exp.trace" >/dev/null 2>"$dir/err"
[ $? = 2 ] && grep -q "reaches byte" "$dir/err" || fail "a copy at the end of the world is shown: $(cat "$dir/err")"

# Without addresses byte sums keep the budget: no offset, no move, and the checker knows.
"$ebb" trace make random --ops 300 --spread 1 --mutation --seed 3 -o "$dir/wild.trace" >/dev/null || fail "no random trace"
"$ebb" plan "$dir/wild.trace" -p floor --ratio 0.6 -o "$dir/wild.plan" >/dev/null || fail "no plan of the random trace"
for how in "best --ratio 0.7" "floor --ratio 0.6" "unified --ratio 0.6 --host 64MiB --link host=5"; do
    row=$("$ebb" plan "$dir/wild.trace" -p $how --no-addresses --json -o "$dir/sum.plan") || fail "--no-addresses -p $how exits $?"
    [[ $row == *'"height_bytes": null'* ]] || fail "a height without addresses: $row"
    budget=$(grep -o '"budget_bytes": [0-9]*' <<<"$row") peak=$(grep -o '"peak_bytes": [0-9]*' <<<"$row")
    [ "${peak#*: }" -le "${budget#*: }" ] || fail "$peak in $budget"
    grep -q '@\|^move' "$dir/sum.plan" && fail "an address in a plan without: $(grep -m1 '@\|^move' "$dir/sum.plan")"
    shown=$("$ebb" plan show "$dir/sum.plan" --trace "$dir/wild.trace") || fail "show of a plan without addresses exits $?"
    [[ $shown == *"no addresses"* ]] || fail "show: ${shown##*$'\n'}"
done
shown=$("$ebb" plan show "$dir/sum.plan" --trace "$dir/wild.trace" --json)
[[ $shown == *'"height_bytes": null'* ]] || fail "show --json: $shown"
# Another program reads trace and plan as text, by the pages of their formats, and comes to the same peak.
"$ebb" trace convert "$dir/wild.trace" -o "$dir/wild.jsonl" >/dev/null || fail "no text of the random trace"
for how in "best --ratio 0.7" "floor --ratio 0.6"; do
    row=$("$ebb" plan "$dir/wild.jsonl" -p $how --no-addresses --json -o "$dir/other.plan") || fail "a plan of a text trace: $row"
    python3 - "$dir/wild.jsonl" "$dir/other.plan" "$row" <<'PY' || fail "another runtime cannot follow the plan ($how)"
import json, sys
ops, storage, size, keep = [], [], [], []  # of tensors: storage, version; of storages: bytes
for line in map(json.loads, open(sys.argv[1])):
    if "op" in line:
        made = []
        for out in line["out"]:
            if isinstance(out, int):
                made.append((len(size), 0))
                size.append(out)
            else:
                s, v = storage[line["in"][next(iter(out.values()))]]
                made.append((s, v + ("mutate" in out)))
        ops.append(([storage[i] for i in line.get("in", [])], made, line))
        storage += made
        keep = []
    keep += [storage[i] for i in line.get("pin", [])]
up = lambda n: (n + 255) // 256 * 256
here, now, peak, ran = {}, 0, 0, set()  # storage: version or None
for words in (line.split() for line in open(sys.argv[2])):
    if words[0] == "budget":
        budget = int(words[1])
    assert words[0] not in ("move", "send", "fetch", "forget")
    if words[0] in ("place", "run", "drop"):
        assert len(words) == 2, words
        i = int(words[1])
    if words[0] == "place":
        assert i not in here
        here[i] = None
        now += up(size[i])
    if words[0] == "drop":
        del here[i]
        now -= up(size[i])
    if words[0] == "run":
        reads, made, op = ops[i]
        assert all(here.get(s) == v for s, v in reads), (i, reads)
        assert not (op.get("leaf") or op.get("once")) or i not in ran
        ran.add(i)
        for s, v in made:
            if v > 0 or (s in here and here[s] is None):
                here[s] = v
        peak = max(peak, now + up(op.get("workspace", 0)))
    peak = max(peak, now)
assert all(here.get(s) == v for s, v in keep)
assert all(i in ran or all("view" in o for o in op["out"] if isinstance(o, dict)) and any(isinstance(o, dict) for o in op["out"])
           for i, (_, _, op) in enumerate(ops))
assert peak == json.loads(sys.argv[3])["peak_bytes"] <= budget, (peak, budget)
PY
done
sed "s/^budget .*/budget $((${peak#*: } - 1))/" "$dir/sum.plan" >"$dir/over.plan"
"$ebb" plan show "$dir/over.plan" --trace "$dir/wild.trace" >/dev/null 2>"$dir/err"
[ $? = 2 ] && grep -q "needs ${peak#*: } bytes" "$dir/err" || fail "a sum over the budget: $(<"$dir/err")"
awk '/^place/ && !done { $3 = "@0"; done = 1 } { print }' "$dir/sum.plan" >"$dir/mixed.plan"
"$ebb" plan show "$dir/mixed.plan" --trace "$dir/wild.trace" >/dev/null 2>"$dir/err"
[ $? = 2 ] && grep -q "some residences have an offset, some have none" "$dir/err" || fail "one address: $(<"$dir/err")"
row=$("$ebb" plan "$graphs/unit_linear_8.json" --ratio 0.5 --no-addresses --json)
[[ $row == *'"cost": 22'* && $row == *'"height_bytes": null'* ]] || fail "a graph without addresses: $row"

# Numbers out of range and options without effect are refused, not ignored.
refused() { # refused WORD OPTION...
    local word=$1
    shift
    "$ebb" plan "$@" >/dev/null 2>"$dir/err"
    [ $? = 2 ] || fail "ebb plan $* does not exit 2"
    [[ $(<"$dir/err") == *"$word"* ]] || fail "ebb plan $*: no '$word' in $(<"$dir/err")"
}
line=$graphs/unit_linear_4.json
refused "allowed: a number >= 0, <= 1" "$line" -r 0.5 --gap -1
refused "allowed: an integer >= 0, <= 3" "$line" -r 0.5 --effort 7
refused "a number >= 0.001, <=" "$line" -r 0.5 --time-limit 0
refused "allowed: an integer >= 1, <= 4096" "$line" -r 0.5 --jobs 0
refused "at most 1e6" "$line" -r 1e9
refused "a planner that copies: --planner unified" "$line" -r 0.5 --host-bytes 64 --host-in 1 --host-out 1
refused "--link host=GB/s" "$line" -r 0.5 -p joint --host-bytes 64
refused "--link file=GB/s" "$line" -r 0.5 -p unified --host 64 --link host=1 --file 64
refused "--host BYTES" "$line" -r 0.5 -p unified --link host=1
refused "does nothing beside --link" "$line" -r 0.5 -p unified --host 64 --link host=1 --host-in 1
refused "does nothing beside --host" "$line" -r 0.5 -p unified --host 64 --host-bytes 64 --link host=1
refused "alone it does nothing" "$line" -r 0.5 -p unified --latency 5
refused "have no model" "$line" -r 0.5 -p all --write-lp "$dir/x.lp"
refused "allowed: an integer >= 1, <= 1000" sweep "$line" --points 0
refused "ends in .svg" sweep "$line" --chart x.gif
refused "allowed: a number >= 0, <= 1" gap "$line" --gap 2
refused ">= 1, <= " maxbatch "$line" --batch 0
refused "--batch is missing" maxbatch "$line"

# A model for other solvers, offload, a small sweep.
"$ebb" plan "$graphs/unit_linear_4.json" -r 0.5 --write-lp "$dir/m.lp" >/dev/null || fail "write-lp"
grep -q "^Minimize" "$dir/m.lp" || fail "no LP file"
row=$("$ebb" plan "$graphs/unit_linear_4.json" -b 3 -p joint --host-bytes 64 --host-in 1 --host-out 1 --json)
[[ $row == *'"cost": 1'[12]* && $row == *'"bound_class": "joint"'* ]] || fail "joint: $row"
row=$("$ebb" plan "$graphs/unit_linear_4.json" -b 3 -p joint --host 64 --link host=10 --json)
[[ $row == *'"cost": 9,'* && $row == *'"optimal": true'* ]] || fail "joint on a fast link: $row"

# With lower tiers every row has a bound and a gap, and the old names of options mean the same.
"$ebb" trace make chain --layers 12 -o "$dir/chain.trace" >/dev/null || fail "no chain"
"$ebb" plan "$dir/chain.trace" -p unified,floor,belady,capuchin -r 0.6 --host 1GiB --link host=2 --json >"$dir/rows" || fail "tiers"
[ "$(wc -l <"$dir/rows")" = 4 ] || fail "rows with tiers: $(<"$dir/rows")"
grep -v '"bound_class": "joint", .*"gap": [0-9]' "$dir/rows" && fail "a row without bound or gap"
"$ebb" plan "$dir/chain.trace" -p unified,floor,belady,capuchin -r 0.6 --host-bytes 1GiB --host-out 2 --host-in 2 --json |
    sed 's/"lower_bound.*//' >"$dir/old" # how good the bound gets depends on the processor
sed 's/"lower_bound.*//' "$dir/rows" | diff - "$dir/old" || fail "old names of options mean something else"
"$ebb" plan "$dir/chain.trace" -p joint -r 0.6 --host 1GiB --link host=2 | grep -q "up to 40" || fail "joint does not say its limit"

# In the bytes of its floor a step may do without running anything again: what training does by default finds that.
"$ebb" model trace googlenet --set height=64 --set width=64 --set classes=10 --set shrink=16 --batch 2 --threads 1 -o "$dir/near.trace" >/dev/null ||
    fail "no trace of a step"
least=$("$ebb" plan "$dir/near.trace" -p floor -b 1000 | grep -o "floor is [0-9]*")
row=$("$ebb" plan "$dir/near.trace" -p unified -b "${least#floor is }" --json)
[[ $row == *'"overhead": 1'[,.][\ 0]* ]] || fail "near the floor: $row"

# Where much runs again: an LSTM of small ops just above its floor by exchanges (2.83 without), DenseNet at its floor by checkpoints
# of blocks with every guess of a block's room (2.10 without).
overhead() { # PARTS of a thousand of the floor, model and its options
    local parts=$1 least
    shift
    "$ebb" model trace "$@" --threads 1 -o "$dir/again.trace" >/dev/null || fail "no trace of $1"
    least=$("$ebb" plan "$dir/again.trace" -p floor -b 1000 | grep -o "floor is [0-9]*")
    "$ebb" plan "$dir/again.trace" -p unified -b $((${least#floor is } * parts / 1000)) --json | grep -o '"overhead": [0-9.]*'
}
row=$(overhead 1020 wlm_lstm --batch 16 --set vocabulary=40 --set length=16 --set embedding=32 --set hidden=32)
awk -v o="${row#*: }" 'BEGIN { exit !(o > 1 && o < 2.7) }' || fail "LSTM above its floor: $row"
row=$(overhead 1000 densenet121 --batch 2 --opt momentum=0.9)
awk -v o="${row#*: }" 'BEGIN { exit !(o > 1 && o < 1.6) }' || fail "DenseNet at its floor: $row"
"$ebb" plan sweep "$graphs/unit_linear_4.json" -n 3 --segments 10 -o "$dir/s.csv" >/dev/null || fail "sweep"
grep -q "^best," "$dir/s.csv" && grep -q "^dtr_eq," "$dir/s.csv" || fail "rows missing in the sweep"

[ "$failures" = 0 ]
