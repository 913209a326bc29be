# Trials without a master: kept in a directory, resumed, imported; the same workloads as a master asks for.
# $1 = the ebb program, $2 = source folder
. "$2/tests/cli/exp_common.sh"
export PYTHONPATH=$source_dir/clients/python
hparams='{"learning_rate": 0.2, "global_batch_size": 4}'
cp "$source_dir/examples/python-loop/train.py" .

kinds() { # S1 S2 V2 C2 ... of a log
    python3 - "$1" <<'PY'
import json, sys
letters = {"RUN_STEP": "S", "COMPUTE_VALIDATION_METRICS": "V", "CHECKPOINT_MODEL": "C"}
print(" ".join(letters[m["workload"]["kind"]] + str(m["workload"]["step_id"]) for m in map(json.loads, open(sys.argv[1]))))
PY
}

# ---- every policy and period: the import asks for exactly what the run has done
n=0
for options in "" "--min-validation-period 2" "--min-validation-period 2 --checkpoint-policy all" \
    "--min-validation-period 2 --min-checkpoint-period 3 --checkpoint-policy none" \
    "--min-validation-period 1 --larger-is-better" "--min-checkpoint-period 4"; do
    n=$((n + 1))
    # shellcheck disable=SC2086
    expect 0 python3 -m ebb_client --detached "run$n" --hparams "$hparams" --max-steps 8 --batches-per-step 3 \
        --metric validation_error $options train.py
    expect 0 "$ebb" run "run$n/exp.yaml" --no-charts
    has out.txt "COMPLETED"
    expect 0 "$ebb" experiment describe $n --json
    same "steps of run $n" "$(field "len(x['trials'][0]['workloads'])")" 8
    got=$(python3 - <<'PY'
import json
x = json.load(open("out.txt"))
for w in x["trials"][0]["workloads"]:
    print("S%d" % w["step_id"], end=" ")
    if w["validation"]:
        print("V%d" % w["step_id"], end=" ")
    if w["checkpoint"]:
        print("C%d" % w["step_id"], end=" ")
PY
)
    same "workloads of run $n" "$got" "$(kinds "run$n/log.jsonl") "
done
same "the worked example" "$(kinds run4/log.jsonl)" "S1 S2 V2 S3 C3 S4 V4 S5 S6 V6 C6 S7 S8 V8 C8"

# ---- what was measured and saved is what is imported
expect 0 "$ebb" experiment describe 2 --json
python3 - <<'PY' || fail "the import differs from the run"
import json
x = json.load(open("out.txt"))
log = [json.loads(line) for line in open("run2/log.jsonl")]
steps = {m["workload"]["step_id"]: m for m in log if m["workload"]["kind"] == "RUN_STEP"}
valid = {m["workload"]["step_id"]: m for m in log if m["workload"]["kind"] == "COMPUTE_VALIDATION_METRICS"}
for w in x["trials"][0]["workloads"]:
    assert w["metrics"]["avg_metrics"] == steps[w["step_id"]]["metrics"]["avg_metrics"]
    if w["validation"]:
        assert w["validation"]["metrics"] == valid[w["step_id"]]["metrics"]
assert x["experiment"]["labels"] == ["detached"]
assert x["trials"][0]["trial"]["hparams"] == {"learning_rate": 0.2, "global_batch_size": 4}
PY
expect 0 "$ebb" experiment list-trials 2 --json
trial=$(field "x['trials'][0]['id']")
expect 0 "$ebb" trial download "$trial" --latest -o copy
uuid=$(python3 -c "import json; print([json.loads(l)['workload']['uuid'] for l in open('run2/log.jsonl') if 'CHECKPOINT' in l][-1])")
cmp -s copy/line.json "run2/checkpoints/$uuid/line.json" || fail "another checkpoint was imported"

# ---- interrupted, killed, torn: it goes on from the last checkpoint to the same end
cat >slow.py <<'PY'
import os, time
import ebb_client
state = 0
with ebb_client.connect(detached="slow", hparams={}, max_steps=30, batches_per_step=1, metric="m", min_validation_period=5) as ebb:
    if ebb.checkpoint:
        state = int(open(os.path.join(ebb.checkpoint.path, "n")).read())
        print("resumed at", state, flush=True)
    for work in ebb.workloads():
        if work.is_train:
            for batch in work.batches():
                assert batch == state, (batch, state)
                state += 1
                while work.step > int(os.environ.get("GATE", "99")) and not ebb.should_stop:
                    time.sleep(0.02)  # here it is caught
                work.report(loss=1.0 / state)
        elif work.is_validation:
            work.report(m=1.0 / state)
        else:
            open(os.path.join(work.directory, "n"), "w").write(str(state))
PY
lines() { cat slow/log.jsonl 2>/dev/null | wc -l; }
grown() { [ "$(lines)" -ge "$1" ]; } # the log has N lines
GATE=4 python3 slow.py >slow.txt 2>&1 &
wait_for grown 4
kill -TERM $!
wait $! || fail "SIGTERM is not a clean end"
[[ $(kinds slow/log.jsonl) == *" C"* ]] || fail "no checkpoint after SIGTERM"
[ ! -e slow/exp.yaml ] || fail "an unfinished run can be imported"
before=$(lines)
GATE=10 python3 slow.py >slow.txt 2>&1 &
wait_for grown $((before + 4))
kill -KILL $!
wait $! 2>/dev/null
printf '{"type": "DO' >>slow/log.jsonl
mkdir slow/checkpoints/.left.tmp
expect 0 python3 slow.py
has out.txt "resumed at"
same "steps of the log" "$(kinds slow/log.jsonl | tr ' ' '\n' | grep -c S)" 30
same "validations of the log" "$(kinds slow/log.jsonl | tr ' ' '\n' | grep V | tr '\n' ' ')" "V5 V10 V15 V20 V25 V30 "
[ ! -e slow/checkpoints/.left.tmp ] || fail "leftovers stay"
expect 0 "$ebb" run slow/exp.yaml --no-charts
has out.txt "COMPLETED"
expect 0 python3 slow.py # nothing left to do

# ---- a class
cp "$source_dir/examples/python-class/model.py" .
expect 0 python3 -m ebb_client --detached ring --max-steps 2 --batches-per-step 2 --hparams '{"learning_rate": 1.0, "decay": 0.0, "global_batch_size": 8}' model:RingTrial
same "workloads of the class" "$(kinds ring/log.jsonl)" "S1 S2 V2 C2"

# ---- what is wrong is said
expect 1 python3 -m ebb_client --detached run1 --hparams "$hparams" --max-steps 9 --batches-per-step 3 --metric validation_error train.py
has err.txt "other settings"
expect 1 python3 -m ebb_client --detached bad --hparams "$hparams" --max-steps 1 --batches-per-step 1 --metric absent train.py
has err.txt "no 'absent'"
expect 2 python3 -m ebb_client --detached x train.py
has err.txt "max-steps"
expect 2 python3 -m ebb_client
expect 1 python3 train.py
has err.txt "--detached"

finish
