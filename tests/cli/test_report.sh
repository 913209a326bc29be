# ebb plot, ebb report: charts of results, logs and CSV files; the page; what is refused.
# $1 = ebb, $2 = source folder
. "$(dirname "$0")/common.sh"

figure() { # VALUE
    printf '{"mean": %s, "median": %s, "std": 0, "mean_conf": [%s, %s], "median_conf": [%s, %s]}' "$1" "$1" "$1" "$1" "$1" "$1"
}
setting() { # PARAMS MS
    printf '{"command_id": 0, "specific_params": {%s, "batch_size": 8}, "summary": [{"time": %s, "gpu_time": %s, "total_mem": %s}]}' \
        "$1" "$(figure "$2")" "$(figure "$2")" "$(figure 1000)"
}
cat >data.json <<JSON
{"timestamp": "now", "net": [$(setting '"type": "baseline"' 100),
 $(setting '"type": "dtr", "kind": "ratio", "ratio": 0.8' 110),
 $(setting '"type": "dtr", "kind": "ratio", "ratio": 0.4' 150),
 {"command_id": 3, "specific_params": {"type": "dtr", "kind": "ratio", "ratio": 0.2, "batch_size": 8}, "summary": "error"}]}
JSON
sed 's/150/170/g' data.json >other.json

# ---- plot ----
expect 0 "$ebb" plot data.json
contains out "Slowdown by budget, dtr"
contains out "×"
expect 0 "$ebb" plot data.json -o charts --json
contains out '"file": "charts/data-slowdown.svg"'
contains out '"file": "charts/data-breakdown.svg"'
contains charts/data-slowdown.svg ">failed</text>"
expect 0 "$ebb" plot data.json --only slowdown -o one.svg --reference other.json
contains one.svg ">net, published</text>"
contains one.svg "stroke-dasharray"
if command -v rsvg-convert >/dev/null; then
    expect 0 "$ebb" plot data.json -o charts --format png
    [ -s charts/data-breakdown.png ] || fail "no PNG"
fi
expect 2 "$ebb" plot data.json -o one.svg
contains err "--only"
expect 2 "$ebb" plot data.json --only slowdon
expect 2 "$ebb" plot data.json --only throughput
contains err "nothing to draw"
expect 2 "$ebb" plot data.json --format gif -o charts
echo '{"net": [{"specific_params": 3, "summary": 1}]}' >broken.json
expect 2 "$ebb" plot broken.json
contains err "broken.json:1:"
printf 'update,name,value\n1,loss,3\n2,loss,2\n' >train.csv
expect 0 "$ebb" plot train.csv -o train.svg
contains train.svg ">loss</text>"
expect 2 "$ebb" plot "$source_dir/README.md"

# more ways, bars and models than fit; one name twice; names of the zoo and published ones
python3 - <<'END'
import json
figure = lambda v: {"mean": v, "median": v, "std": 0, "mean_conf": [v, v], "median_conf": [v, v]}
def setting(ms, **params):
    return {"command_id": 0, "specific_params": dict(params, batch_size=8), "summary": [{"time": figure(ms), "gpu_time": figure(ms), "total_mem": figure(1000)}]}
base = setting(100, type="baseline")
put = lambda name, what: json.dump(what, open(name, "w"))
put("types.json", {"net": [base] + [setting(100 + t, type="way%02d" % t, kind="ratio", ratio=0.5) for t in range(20)]})
put("bars.json", {"net": [base] + [setting(200 - r, type="dtr", kind="ratio", ratio=r / 50) for r in range(5, 50)]})
put("models.json", {"net%d" % i: [base, setting(110, type="dtr", kind="ratio", ratio=0.5)] for i in range(70)})
put("large.json", {"net": [base, setting(110, type="dtr", kind="ratio", ratio=1e18)]})
put("zoo.json", {"densenet121": [base, setting(110, type="unified", kind="ratio", ratio=0.5)]})
put("gpu.json", {"tv_densenet121": [base, setting(130, type="dtr", kind="ratio", ratio=0.5)]})
put("slow.json", {"net": [base] + [setting(110, type="dtr", kind="ratio", ratio=r / 5000) for r in range(1, 4000)]})
END
expect 0 "$ebb" plot types.json --only slowdown -o types.svg
contains types.svg ">way19</text>"
expect 0 "$ebb" plot bars.json --only breakdown -o bars.svg --json
for name in 0.96 0.12; do contains bars.svg ">$name</text>"; done
grep -q ">0.98</text>" bars.svg && fail "slanted names lie on each other"
expect 0 "$ebb" plot models.json --only breakdown -o models.svg
contains models.svg ">net69</text>"
expect 0 "$ebb" plot large.json --only slowdown -o large.svg
expect 0 "$ebb" plot zoo.json --only slowdown -o zoo.svg --reference gpu.json
contains zoo.svg ">densenet121, published</text>"
mkdir one two
cp data.json one
cp data.json two
expect 0 "$ebb" plot one/data.json two/data.json --only slowdown -o both
[ -s both/data-slowdown.svg ] && [ -s both/data-2-slowdown.svg ] || fail "two files of one name: $(ls both)"
expect 0 timeout 30 "$ebb" pareto compare slow.json slow.json

# ---- report ----
mkdir results
cp data.json train.csv one.svg results
printf ':::MLLOG {"namespace": "gpt", "key": "train_loss", "value": 2.5, "metadata": {"epoch_num": 1}}\n' >results/run.log
expect 0 "$ebb" report results --json
contains out '"results": 1, "runs": 2, "charts": 1, "failed": 0'
contains results/report.html "failed: error"
contains results/report.html "data:image/svg+xml;base64,"
checks=$((checks + 1))
grep -qE '<script|src="http|href=' results/report.html && fail "the page is not self-contained"
cp broken.json results
expect 0 "$ebb" report results -o page.html --title 'a <b>'
contains page.html "<title>a &lt;b&gt;</title>"
contains page.html "Not shown"
mkdir -p many/a/trials many/b many/c/d/e/f/g
touch many/a/lock
for ((i = 0; i < 450; i++)); do echo "{}" >"many/a/trials/$i.json"; done
cp data.json many/b
cp data.json many/c/d/e/f/g
cp models.json many
expect 0 "$ebb" report many --json
contains out '"results": 2, "runs": 0, "charts": 0, "failed": 0'
contains many/report.html "folders more than 4 below this one were not looked at"
grep -q "more than 400 files" many/report.html && fail "finished trials were looked at"
chmod 0755 .
chmod 0777 many
mkdir -m 0 many/locked
[ "$(id -u)" = 0 ] && other="setpriv --reuid=65534 --clear-groups" || other=
if $other "$ebb" --version >/dev/null 2>&1; then
    # shellcheck disable=SC2086
    expect 0 $other "$ebb" report many --json
    contains out '"failed": 1'
    contains many/report.html "cannot read the folder many/locked: Permission denied"
fi
mkdir empty
expect 2 "$ebb" report empty
contains err "nothing to report"
expect 1 "$ebb" report nowhere

# ---- the step inside a budget ----
cat >gpt.yaml <<'YAML'
entrypoint: ebb:language_model
data: {name: language, vocabulary: 40, sequence_length: 32, samples: 400, val_samples: 10}
model: {name: gpt2_124M, layers: 3, width: 32, heads: 2, dropout: 0}
hyperparameters: {global_batch_size: 8}
opt: {name: AdamW, lr: 0.01}
searcher: {name: single, metric: validation_loss, max_steps: 1}
YAML
expect 0 "$ebb" explain gpt.yaml --json
floor=$(sed -E 's/.*"floor_bytes": ([0-9]+).*/\1/' out)
budget=$((floor * 11 / 10))
expect 0 "$ebb" explain gpt.yaml --budget "$budget" -o step.svg --json
contains out '"managed": {"budget_bytes": '"$budget"
contains step.svg "Evictions and reruns so far"
contains step.svg ">budget</text>"
[[ $(<step.svg) != *"lower tiers"* ]] || fail "lower tiers are drawn, and there are none"

# with tiers: what lies there and what their links have carried, in the picture and in the rows
expect 0 "$ebb" explain gpt.yaml --budget "$budget" --host 64MiB --file 64MiB --link host=20,file=5 -o step.svg --json
contains step.svg "Bytes in lower tiers"
contains step.svg ">from host</text>"
contains step.svg ">to file</text>"
python3 - out <<'EOF' || fail "the timeline of a step with tiers"
import json, sys
m = json.load(open(sys.argv[1]))["managed"]
rows = [dict(zip(m["columns"], row)) for row in m["timeline"]]
kinds = m["columns"][1:7]
assert kinds == ["weights", "optimizer", "inputs", "activations", "gradients", "workspace"], kinds
assert max(sum(r[k] for k in kinds) for r in rows) == m["peak_bytes"] <= m["budget_bytes"]
assert max(r["host"] + r["file"] for r in rows) > 0
for tier in "host", "file":
    for a, b in zip(rows, rows[1:]):  # what was carried only grows
        assert a["to_" + tier] <= b["to_" + tier] and a["from_" + tier] <= b["from_" + tier]
assert rows[-1]["from_host"] + rows[-1]["from_file"] > 0
EOF
finish
