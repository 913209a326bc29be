#!/usr/bin/env bash
# ebb pareto: files as published, a small file run, run again, killed and run again; failures, limits, retries, logs. EBB_TEST_LONG=1: twenty
# kills instead of two.
# $1 = ebb, $2 = source folder
. "$(dirname "$0")/common.sh"
kills=2
[ "${EBB_TEST_LONG:-}" = 1 ] && kills=20

# trials N FILE: it is valid and lists so many
trials() {
    expect 0 "$ebb" pareto "$2" --dry-run
    contains err "$1 trials"
}

# ---- files ----
trials 49 "$source_dir/examples/pareto.json"
published=$source_dir/../shared/data/dtr_configs
if [ -d "$published" ]; then
    trials 39 "$published/full-run-config.json"
    [ "$(grep -c warning: err)" = 6 ] || fail "full-run: $(grep -c warning: err) warnings, not 6"
    trials 32 "$published/table-data-run-config.json"
    [ "$(grep -c warning: err)" = 3 ] || fail "table-data: $(grep -c warning: err) warnings, not 3"
    [ "$(grep -c note: err)" = 1 ] || fail "table-data: no note about sync_gpu"
else
    echo "skipped: no published files in $published"
fi
# the example of the format's own page: its keys and values, models of the zoo, what stands for more left out
cat >example.json <<'END'
{
    "active": true, "save_logs": false, "sync_gpu": true,
    "log_dest": "~/logs",           // in the home folder
    "dtr_torch_cmd": "~/bin/python3",
    "dry_run": 10, "n_inputs": 1, "n_reps": 50, "report_errors": true, "set_seed": true, "seed": 1, "notify": [],
    "models": ["resnet32", "unet"],
    "dtr_settings": {
    "default": {"batch_size": 32, "timeout": 1200, "ignore_small_tensors": true, "use_sampling": true},
    "resnet32": [
        {"type": "baseline", "batch_size": 56, "extra_params": {}},
        {"type": "dtr", "kind": "fixed", "use_profiling": true, "memory_budget": [9e9, 8e9, 4e9],
         "extra_params": {"retry_on_error": true, "max_retries": 15, "no_sampling_below_budget": 5e9}},
        {"type": "dtr", "kind": "ratio", "ratio": [0.9, 0.8, 0.1], "extra_params": {"no_sampling_below_ratio": 5e9}}
    ],
    "unet": []
    }
}
END
trials 7 example.json
contains err "sync_gpu: acts on device cuda"
for words in "dtr_torch_cmd: not used" "no_sampling_below_ratio: above 1" "dtr_settings.unet: no commands"; do contains err "$words"; done
expect 1 "$ebb" pareto no-such-file.json
expect 2 "$ebb" pareto "$source_dir/examples/pareto.json" --device abacus

# file NAME TOP COMMANDS: of a small ResNet
small='"extra_params": {"height": 16, "width": 16, "planes": 4, "blocks": [3, 3, 3]}'
file() {
    cat >"$1" <<END
{"active": true, "models": ["resnet20"], "dry_run": 1, "n_inputs": 1, "n_reps": 3, "set_seed": true, "seed": 5, $2
 "dtr_settings": {"default": {"batch_size": 4, "timeout": 120}, "resnet20": [$3]}}
END
}
file idle.json '"report_errors": true,' '{"type": "baseline"}'
sed -i 's/"active": true/"active": false/' idle.json
expect 0 "$ebb" pareto idle.json
contains err "nothing is done"
[ ! -e idle.results ] || fail "an inactive file made a folder"

# what nobody can mean, said before anything starts
hostile() { # WORDS JSON
    echo "$2" >hostile.json
    expect 2 timeout 20 "$ebb" pareto hostile.json --dry-run
    contains err "$1"
}
hostile 'models: found "nosuch", allowed: a model of the zoo' '{"active": true, "models": "nosuch", "n_reps": 1, "dtr_settings": {"nosuch": [{"type": "baseline", "batch_size": 1}]}}'
hostile 'more than 4096 settings' "{\"active\": true, \"n_reps\": 1, \"dtr_settings\": {\"resnet32\": [{\"type\": \"dtr\", \"kind\": \"fixed\", \"batch_size\": 4,
 \"memory_budget\": [$(seq -s, 1 200000)]}]}}"
hostile 'found 100000 models' "{\"active\": true, \"n_reps\": 1, \"models\": [$(seq -f '"m%.0f"' -s, 1 100000)], \"dtr_settings\": {}}"
echo '{"active": true, "n_reps": 1, "note of mine": [], "dtr_settings": {"resnet32": [{"type": "baseline", "batch_size": 1, "note to you": 1}]}}' >notes.json
expect 0 "$ebb" pareto notes.json --dry-run
contains err "warning: note of mine: a note, read by nobody"
contains err "warning: dtr_settings.resnet32[0].note to you: a note, read by nobody"
sed 's/"note of mine"/"of"/' notes.json >hostile.json
expect 2 "$ebb" pareto hostile.json --dry-run

# ---- a run, and a run that finds everything done ----
file run.json '"report_errors": true, "save_logs": true, "log_dest": "logs", "n_inputs": 2,' "
 {\"type\": \"baseline\", $small}, {\"type\": \"dtr\", \"kind\": \"ratio\", \"ratio\": [0.9, 0.01], \"use_profiling\": true, $small},
 {\"type\": \"lru\", \"kind\": \"ratio\", \"ratio\": 0.8, \"paired\": true, $small}, {\"type\": \"unified\", \"kind\": \"fixed\", \"memory_budget\": 400000, \"costs\": \"baseline\", $small},
 {\"type\": \"dtr\", \"kind\": \"param_sweep\", \"memory_budget\": -1, \"batch_size\": [2, 4], $small}"
sed -i 's/"n_inputs": 1, //' run.json
expect 0 "$ebb" pareto run.json -o run --json
cp out first
[ "$(wc -l <out)" = 7 ] || fail "$(wc -l <out) settings, not 7"
[ "$(grep -c '"status": "ok"' out)" = 6 ] || fail "not 6 settings are ok: $(cat out)"
contains out "too small for cifar_resnet20"
python3 - out <<'END' || fail "peaks, losses or gradients"
import json, sys
rows = [json.loads(line) for line in open(sys.argv[1])]
base = rows[0]
assert base["median_op_us"] > 0 and base["throughput"] > 0 and "slowdown" in base
for r in rows[1:]:
    p = r["specific_params"]
    if r["status"] != "ok" or p["batch_size"] != 4:
        continue
    assert r["gradients_sha256"] == base["gradients_sha256"] and r["loss"] == base["loss"], r
    assert r["memory_budget"] < 0 or r["peak_bytes"] <= r["memory_budget"], r
    assert r["floor_bytes"] == base["floor_bytes"] and r["predicted_slowdown"] >= 0.999, r
    assert ("search_time" in r) == ("use_profiling" in p), r
    assert ("baseline_time" in r) == ("paired" in p), r
assert rows[5]["throughput"] > 0 and rows[5]["specific_params"]["batch_size"] == 2
END
for name in data.json summary.json errors.json status.json cmd-0-baseline-4-resnet20.csv cmd-1-dtr-ratio-0.9-resnet20.csv cmd-3-unified-fixed-4-400000-resnet20.csv cmd-4-dtr-sweep-2--1-resnet20.csv; do
    [ -s "run/$name" ] || fail "no $name"
done
[ "$(wc -l <run/cmd-0-baseline-4-resnet20.csv)" = 7 ] || fail "the CSV file has not 2 x 3 repetitions"
contains run/errors.json "too small"
contains run/errors.json '"input": 0'
log=logs/resnet20-4-inf-5-baseline.log
[ "$(find logs -name '*.log' | wc -l)" -ge 8 ] || fail "logs: $(ls logs)"
expect 0 "$ebb" sim "$log" --policy dtr_eq --ratio 0.9 --rules simrd --json
find run/trials -name rows.csv | sort | xargs stat -c '%i %Y %n' >before
expect 0 "$ebb" pareto run.json -o run --json
find run/trials -name rows.csv | sort | xargs stat -c '%i %Y %n' >after
cmp before after || fail "finished trials were run again"
cmp first out || fail "a rerun without anything to do has other results"
expect 0 "$ebb" pareto compare run/data.json run/data.json --json
[ "$(grep -c '"a_error": null' out)" = 6 ] || fail "compare: $(cat out)"
expect 0 "$ebb" pareto compare run/data.json run/data.json
contains out "1.000"
results=$source_dir/../shared/data/dtr_gpu_results/data-full.json
if [ -f "$results" ]; then
    expect 0 "$ebb" pareto compare "$results" "$results"
else
    echo "skipped: no published results in $results"
fi
expect 2 "$ebb" pareto compare run.json run/data.json

# ---- failures ----
file strict.json '' "{\"type\": \"dtr\", \"kind\": \"ratio\", \"ratio\": [0.01, 0.9], $small}"
expect 1 "$ebb" pareto strict.json -o strict
contains err "nothing more is run"
[ ! -e strict/data.json ] || fail "a run that gave up has results"
contains strict/status.json '"success": false'
contains strict/status.json "too small"
file late.json '"report_errors": true,' "{\"type\": \"baseline\", \"timeout\": 0.001, $small}"
expect 0 "$ebb" pareto late.json -o late
contains out "not done within 0.001 s and killed"
# the limit and the request to stop hold for a child that never is silent, too
file fast.json '"report_errors": true,' "{\"type\": \"baseline\", \"timeout\": 1, \"n_reps\": 1000000, $small}"
expect 0 timeout 60 "$ebb" pareto fast.json -o fast
contains out "not done within 1 s and killed"
sed 's/"timeout": 1,/"timeout": 600,/' fast.json >endless.json
"$ebb" pareto endless.json -o endless >/dev/null 2>&1 &
harness=$!
sleep 1
kill -TERM $harness
for ((n = 0; n < 200; n++)); do
    kill -0 $harness 2>/dev/null || break
    sleep 0.1
done
kill -9 $harness 2>/dev/null && fail "a run with quick repetitions cannot be stopped"
wait $harness
checks=$((checks + 1))
file retry.json '"report_errors": true,' "{\"type\": \"dtr\", \"kind\": \"fixed\", \"memory_budget\": -1, \"timeout\": 30, \"extra_params\": {\"retry_on_error\":
 true, \"max_retries\": 2, \"attempt_timeout\": 0.001}}"
expect 0 "$ebb" pareto retry.json -o retry
contains out "no repetition within 0.001 s, killed (after 2 retries)"
[ -z "$(ls -A retry/trials | grep -v '^[0-9a-f]*$')" ] || fail "left behind: $(ls -A retry/trials)"

# a child that dies is followed by one that does the rest
file again.json '"report_errors": true,' "{\"type\": \"dtr\", \"kind\": \"fixed\", \"memory_budget\": -1, \"n_reps\": 300, $small}"
sed -i 's/"extra_params": {/&"retry_on_error": true, "attempt_timeout": 60, /' again.json
"$ebb" pareto again.json -o again --json >again.out 2>/dev/null &
harness=$! child=
for ((n = 0; n < 4000; n++)); do # the baseline has no retries: wait for the next child
    [ "$(find again/trials -name rows.csv 2>/dev/null | wc -l)" = 1 ] && child=$(pgrep -P $harness) && break
    sleep 0.02
done
sleep 0.5
[ -n "$child" ] && kill -9 "$child"
wait $harness || fail "exit after a child was killed"
contains again.out '"status": "ok"'
[ "$(grep -c , again/cmd-0-dtr-fixed-4--1-resnet20.csv)" = 301 ] || fail "not 300 repetitions"
grep -q '"num_retries": 1' again/data.json || fail "the retry is not told: $(grep num_retries again/data.json)"

# ---- what lies in the folder is looked at ----
file kept.json '"report_errors": true,' "{\"type\": \"baseline\", $small}"
expect 0 "$ebb" pareto kept.json -o kept
rows=$(ls kept/trials/*/rows.csv)
head -2 "$rows" >torn && cp torn "$rows"
expect 0 "$ebb" pareto kept.json -o kept
[ "$(wc -l <"$rows")" = 4 ] || fail "a trial without all of its repetitions was taken for a finished one"
sed 's/"set_seed": true, "seed": 5,//' kept.json >torn.json
for seed in '{"seed": "x"}' '{"seed": -5}' '{"seed": 1e30}' '[]'; do
    echo "$seed" >kept/seed.json
    expect 2 "$ebb" pareto torn.json -o kept
    contains err "kept/seed.json"
done
# logs that are wanted later; settings that differ in what names of files do not tell
expect 0 "$ebb" pareto torn.json -o later
sed 's/"report_errors": true,/&"save_logs": true, "log_dest": "later\/logs",/' torn.json >again.json
expect 0 "$ebb" pareto again.json -o later
[ "$(find later/logs -name '*.log' | wc -l)" = 1 ] || fail "no log of a trial that was finished before"
file twins.json '"report_errors": true, "save_logs": true, "log_dest": "twins/logs",' "{\"type\": \"dtr\", \"kind\": \"fixed\", \"memory_budget\": 550000, \"use_sampling\": [true,
 false], $small}, {\"type\": \"dtr\", \"kind\": \"ratio\", \"ratio\": 0.9, \"batch_size\": [2, 4], $small}"
expect 0 "$ebb" pareto twins.json -o twins
[ "$(find twins -maxdepth 1 -name '*.csv' | wc -l)" = 4 ] || fail "files of 4 settings: $(ls twins/*.csv)"
[ "$(find twins/logs -name '*.log' | wc -l)" = 4 ] || fail "logs of 4 settings: $(ls twins/logs)"
# a policy that finds no way is told, and what ran instead
file close.json '"report_errors": true,' "{\"type\": \"lru\", \"kind\": \"fixed\", \"memory_budget\": 360000, $small}, {\"type\": \"unified\", \"kind\": \"ratio\", \"ratio\": 0.9, $small}"
expect 0 "$ebb" pareto close.json -o close
contains out "decided by floor instead of lru"
contains close/data.json '"decided_by": "floor instead of lru"'
[ "$(grep -c "instead of" close/data.json)" = 1 ] || fail "who decided: $(grep decided_by close/data.json)"

# ---- stopped, it says how to go on ----
"$ebb" pareto run.json -o stopped >/dev/null 2>stopped.err &
harness=$!
sleep 0.3
kill -TERM $harness
wait $harness
[ $? = 1 ] || fail "exit of a run that was stopped"
contains stopped.err "-o stopped' goes on"
expect 0 "$ebb" pareto run.json -o stopped

# ---- a device that is not there is refused before anything runs ----
if [ ! -e "$(dirname "$ebb")/ebb_cuda.so" ]; then
    expect 1 "$ebb" pareto run.json -o cuda --device cuda
    contains err "ebb_cuda.so"
    [ ! -e cuda/data.json ] || fail "trials of a device that is not there are results"
fi

# ---- a seed that is drawn is kept ----
file drawn.json '"report_errors": true,' "{\"type\": \"baseline\", $small}"
sed -i 's/"set_seed": true, "seed": 5,//' drawn.json
expect 0 "$ebb" pareto drawn.json -o drawn --json
cp out first
expect 0 "$ebb" pareto drawn.json -o drawn --json
cmp first out || fail "the seed was drawn again"
contains drawn/data.json "\"seed\": $(tr -dc 0-9 <drawn/seed.json)"

# ---- simrd ----
file simrd.json '"report_errors": true,' "{\"type\": \"simrd\", \"kind\": \"use_log\", \"file_path\": \"$log\", \"memory_budget\": [-1, 500000]}, {\"type\": \"simrd\",
 \"kind\": \"get_log\", \"memory_budget\": -1, $small}"
expect 0 "$ebb" pareto simrd.json -o simrd --json
[ "$(grep -c '"status": "ok"' out)" = 3 ] || fail "simrd: $(cat out)"
# a log that is not there is a failure like others: the rest is measured
file no-log.json '"report_errors": true,' '{"type": "simrd", "kind": "use_log", "file_path": "no-such.log", "memory_budget": [-1]}, {"type": "baseline"}'
expect 0 "$ebb" pareto no-log.json -o no-log
contains out "cannot open no-such.log"
contains no-log/errors.json "no-such.log"
# what a process killed while it wrote left in a draft is no obstacle
draft=$(ls no-log/trials)
mv "no-log/trials/$draft" "no-log/trials/.$draft"
mv "no-log/trials/.$draft/rows.csv" "no-log/trials/.$draft/rows.csv.77-0.tmp"
expect 0 "$ebb" pareto no-log.json -o no-log
[ "$(ls -A no-log/trials)" = "$draft" ] || fail "drafts left: $(ls -A no-log/trials)"
# nor are costs that were cut short: they are measured again
sed -i '3,$d' "no-log/trials/$draft/costs.txt"
expect 0 "$ebb" pareto no-log.json -o no-log
[ "$(tail -n 1 "no-log/trials/$draft/costs.txt")" = end ] || fail "damaged costs are kept"

# ---- one run at a time in a folder ----
exec 9>run/lock
flock 9
expect 2 "$ebb" pareto run.json -o run
contains err "another run measures"
exec 9>&-

# ---- kill ----
file kill.json '"report_errors": true,' "{\"type\": \"baseline\", $small}, {\"type\": \"dtr\", \"kind\": \"ratio\", \"ratio\": [0.9, 0.8, 0.7], $small},
 {\"type\": \"unified\", \"kind\": \"ratio\", \"ratio\": [0.9, 0.8, 0.7], $small}"
expect 0 "$ebb" pareto kill.json -o reference
for ((i = 0; i < kills; i++)); do
    rm -rf killed
    for ((k = 0; k <= i % 3; k++)); do
        setsid "$ebb" pareto kill.json -o killed >/dev/null 2>&1 &
        harness=$!
        sleep "$((RANDOM % 2)).$(printf %02d $((RANDOM % 100)))"
        if ((i % 2)); then
            child=$(pgrep -P $harness)
            [ -z "$child" ] || kill -9 $child 2>/dev/null
            wait $harness
        else
            kill -9 $harness 2>/dev/null
            wait $harness 2>/dev/null
        fi
        for ((n = 0; n < 100; n++)); do
            [ -n "$(pgrep -s $harness)" ] || break
            sleep 0.05
        done
        [ -z "$(pgrep -s $harness)" ] || fail "left behind: $(pgrep -as $harness)"
    done
    expect 0 "$ebb" pareto kill.json -o killed
    [ -z "$(ls -A killed/trials | grep -v '^[0-9a-f]*$')" ] || fail "drafts left: $(ls -A killed/trials)"
    checks=$((checks + 1))
    python3 - reference/data.json killed/data.json <<'END' || fail "kill $i: results differ in more than times"
import json, sys
def bare(node):
    if isinstance(node, dict):
        return {k: bare(v) for k, v in node.items() if "time" not in k and k not in ("throughput", "slowdown", "predicted_slowdown", "plan_ms", "median_op_us")}
    return [bare(v) for v in node] if isinstance(node, list) else node
a, b = (bare(json.load(open(p))) for p in sys.argv[1:])
assert a == b
END
done
finish
