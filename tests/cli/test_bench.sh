# ebb bench: broken files, the rows of batch arithmetic, a small run that reaches its target, the log, references.
# $1 = ebb, $2 = source folder. EBB_TEST_LONG=1: every benchmark, made small as docs/bench.md shows, within three minutes.
. "$(dirname "$0")/common.sh"

# ---- broken files: the whole report ----
cp "$source_dir"/tests/golden/bench/* .
count=0
for text in *.txt; do
    name=${text%.txt}
    expect 2 "$ebb" bench "$name.yaml" --dry-run
    tail -n +2 "$text" | cmp -s - err || fail "report of $name.yaml: $(diff <(tail -n +2 "$text") err | head -3)"
    count=$((count + 1))
done
[ "$count" -ge 6 ] || fail "only $count broken files"

# ---- batches: rows of the contract ----
# row SAMPLES GLOBAL LOCAL DEVICES ACCUMULATION: iterations of local samples, accumulation
row() {
    expect 0 "$ebb" bench "${6:-resnet50}" --dry-run --json --devices "$4" -gbs "$2" -lbs "$3" --t_subset_size "$1" \
        --set "data.gradient_accumulation_freq=$5"
    sed -E 's/.*"gradient_accumulation": ([0-9]+), "local_batch_size": ([0-9]+).*"iterations_per_epoch": ([0-9]+).*/\3 \2 \1/' out
}
same() {
    checks=$((checks + 1))
    [ "$1" = "$2" ] || fail "'$1' instead of '$2'"
}
same "$(row 512 8 0 1 1)" "64 8 1"
same "$(row 512 8 0 4 1)" "64 2 1"
same "$(row 512 8 0 4 2)" "128 1 2"
same "$(row 2048 1024 128 4 -1)" "4 128 1"
same "$(row 2048 1024 0 4 -1)" "8 64 4"
same "$(row 2048 1024 0 1 -1)" "32 64 16"
same "$(row 2048 1024 0 4 -1 cosmoflow)" "32 16 16"
expect 2 "$ebb" bench resnet50 --dry-run -gbs 10 --set data.gradient_accumulation_freq=4
contains err "8 and 12 divide"
expect 2 "$ebb" bench resnet50 --devices 4
contains err "this build trains on one"
expect 2 env SLURM_NTASKS=4 "$ebb" bench resnet50
contains err "SLURM_NTASKS"
expect 0 env SLURM_NTASKS=4 "$ebb" bench resnet50 --dry-run
contains out "devices               4"
expect 2 "$ebb" bench resnet51
contains err "did you mean 'resnet50'?"
expect 2 "$ebb" bench
cp "$source_dir/examples/bench/deepcam.yaml" config.yaml
expect 0 "$ebb" bench --dry-run
contains out "deepcam: config.yaml"
rm config.yaml
for name in resnet50 deepcam cosmoflow bert gpt; do
    expect 0 "$ebb" bench $name --dry-run
    contains out "target"
done

# ---- a run: reaches its target, which the untrained model misses by far ----
gpt="--set data.sequence_length=32 --set data.vocabulary=64 --set data.samples=1024 --set data.val_samples=32
    --set model.layers=2 --set model.width=64 --set model.heads=4 --set model.dropout=0 --set opt.weight_decay=0
    --set lr_schedule.base_lr=0.003 --set data.n_epochs=20 -gbs 16"
# shellcheck disable=SC2086
expect 0 "$ebb" bench gpt $gpt --set training.target_log_perplexity=2.1 --json
cp out gpt.log
tail -1 out >last
contains last '"status": "success"'
contains out "Processing Speed: "
contains out "Change In Train Loss at Epoch: "
contains out "Train Loss at Epoch 1: "
contains out "Time To Target: "
contains out '"key": "target_log_perplexity_reached"'
grep -F ':::MLLOG' out | sed 's/^:::MLLOG //' | python3 -c '
import json, sys
rows = [json.loads(line) for line in sys.stdin]
keys = [row["key"] for row in rows]
assert all(list(r) == ["namespace", "time_ms", "event_type", "key", "value", "metadata"] for r in rows), rows[0]
assert keys[0] == "init_start" and keys[1] == "gpt" and keys[2] == "seed" and rows[2]["value"] == 1.0
assert keys.index("init_stop") < keys.index("run_start") < keys.index("epoch_start") < keys.index("eval_start")
assert keys.count("epoch_start") == keys.count("epoch_stop") >= 1
assert rows[-1]["key"] == "run_stop" and rows[-1]["metadata"]["status"] == "success", rows[-1]
assert rows[keys.index("run_start")]["event_type"] == "INTERVAL_START"
assert rows[-1]["event_type"] == "INTERVAL_END" and rows[2]["event_type"] == "POINT_IN_TIME"
assert "opt_adam_beta_2" in keys and rows[keys.index("opt_adam_beta_2")]["value"] == 0.95
assert rows[keys.index("epoch_stop")]["metadata"]["epoch_num"] == 1
' || fail "MLPerf lines"
checks=$((checks + 1))
first=$(grep -oE '"key": "eval_accuracy", "value": [0-9.]+' out | head -1)
# shellcheck disable=SC2086
expect 1 "$ebb" bench gpt $gpt --set training.target_log_perplexity=2.1 --set lr_schedule.base_lr=0 --set data.n_epochs=1 --json
contains out '"status": "target not met"'
untrained=$(tail -1 out | sed -E 's/.*"value": ([0-9.]+).*/\1/')
checks=$((checks + 1))
awk -v u="$untrained" 'BEGIN { exit !(u > 1.5 * 2.1) }' || fail "the untrained model is at $untrained already ($first)"

# ---- a budget is kept, and changes nothing ----
# shellcheck disable=SC2086
expect 0 "$ebb" bench gpt $gpt --set training.target_log_perplexity=9 --set data.n_epochs=1 --threads 1 --json
free=$(tail -1 out)
peak=$(sed -E 's/.*"peak_bytes": ([0-9]+).*/\1/' <<<"$free")
budget=$((peak * 8 / 10))
# shellcheck disable=SC2086
expect 0 "$ebb" bench gpt $gpt --set training.target_log_perplexity=9 --set data.n_epochs=1 --threads 1 --json --budget "$budget"
contains out "Memory Budget: $budget"
kept=$(tail -1 out)
same "$(sed -E 's/.*"loss": ([^,]+).*/\1/' <<<"$kept")" "$(sed -E 's/.*"loss": ([^,]+).*/\1/' <<<"$free")"
same "$(sed -E 's/.*"value": ([^,]+).*/\1/' <<<"$kept")" "$(sed -E 's/.*"value": ([^,]+).*/\1/' <<<"$free")"
[ "$(sed -E 's/.*"peak_bytes": ([0-9]+).*/\1/' <<<"$kept")" -le "$budget" ] || fail "peak above the budget"
# shellcheck disable=SC2086
expect 1 "$ebb" bench gpt $gpt --budget 1KiB

# ---- leftover micro-batches ----
# shellcheck disable=SC2086
expect 0 "$ebb" bench gpt $gpt --set data.samples=88 --set data.gradient_accumulation=2 --set data.n_epochs=1 \
    --set training.target_log_perplexity=99
contains out "Leftover micro-batches dropped at the end of every epoch: 1"

# ---- references ----
speed=$(awk -F': ' '/^Processing Speed/ { s += $2; n++ } END { printf "%.6f", s / n }' gpt.log)
cat >refs.yaml <<YAML
here:
  Throughput: [$speed, -0.05, 0.05, samples/s]
  Delta Loss: [0, 0, null, ""]
"here:slow":
  Throughput: [$(awk -v s="$speed" 'BEGIN { print 2 * s }'), -0.05, null, samples/s]
"*":
  Avg GPU Power Draw: [100, -0.1, 0.1, W]
YAML
expect 0 "$ebb" bench check gpt.log --references refs.yaml --system here
contains out "Throughput"
contains out "ok"
expect 0 "$ebb" bench check gpt.log --references refs.yaml --system here:fast --json
contains out '"passed": true'
expect 1 "$ebb" bench check gpt.log --references refs.yaml --system here:slow
contains out "outside"
expect 1 "$ebb" bench check gpt.log --references refs.yaml --system elsewhere
contains out "not in the log"
printf 'sys:\n  Throughput: [200, 0.1, -0.1, x]\n  Throghput: [1, 0, 0, x]\n  Epoch Length: fast\n' >bad.yaml
expect 2 "$ebb" bench check gpt.log --references bad.yaml --system sys
contains err "bad.yaml:2:15: sys.Throughput: found lower 0.1 above upper -0.1"
contains err "nearest: Throughput"
contains err "sys.Epoch Length"
printf 'sys:\n  Throughput: [15, -0.1, 0.1, 5]\n' >bad.yaml
expect 2 "$ebb" bench check gpt.log --references bad.yaml --system sys
contains err "bad.yaml:2:31: sys.Throughput[3]: found 5, allowed: a unit, as images/s"
printf 'Processing Speed:   10 \r\nProcessing Speed: 20\n' >blank.log
printf 'sys:\n  Throughput: [15, 0, 0, x]\n' >blank.yaml
expect 0 "$ebb" bench check blank.log --references blank.yaml --system sys
expect 2 "$ebb" bench check refs.yaml --references refs.yaml --system here
contains err "no line 'Processing Speed'"
expect 2 "$ebb" bench check gpt.log --references refs.yaml
printf 'Processing Speed: fast\n' >broken.log
expect 2 "$ebb" bench check broken.log --references refs.yaml --system here
contains err 'broken.log:1:19: Throughput: found "fast"'

# ---- the page's own commands ----
if [ "${EBB_TEST_LONG:-0}" = 1 ]; then
    sed -n '/^## Made small/,$p' "$source_dir/docs/bench.md" | sed -n '/^```sh/,/^```$/p' | grep -v '^```' |
        sed -e ':a' -e '/\\$/N; s/\\\n *//; ta' >commands
    [ "$(wc -l <commands)" = 5 ] || fail "$(wc -l <commands) commands in the page"
    while read -r command; do
        start=$SECONDS
        eval "expect 0 \"\$ebb\" ${command#ebb }"
        contains out '"status": "success"'
        echo "$((SECONDS - start)) s: $(grep -o 'ebb bench [a-z0-9]*' <<<"$command")"
        [ $((SECONDS - start)) -le 180 ] || fail "it took $((SECONDS - start)) s: $command"
    done <commands
fi
finish
