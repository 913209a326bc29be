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
finish
