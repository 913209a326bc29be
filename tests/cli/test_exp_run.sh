# ebb run: searches with trials in Python and C, PBT, warm start, test mode, Ctrl-C and resume, a second run beside the first.
# $1 = the ebb program, $2 = source folder
. "$2/tests/cli/exp_common.sh"

# ---- a search with the Python client, watched in a pipe
cp -r "$source_dir/examples/python-class" class
expect 0 "$ebb" run class/exp.yaml --slots 2 --config searcher.max_steps=2 --config searcher.max_trials=3 --config batches_per_step=4
has out.txt "Created experiment 1"
has out.txt "experiment 1: COMPLETED"
has out.txt "(best so far)"
has out.txt "Best: trial"
has out.txt "learning_rate"
if command -v rsvg-convert >/dev/null; then
    [ -s "$EBB_STATE/charts/experiment-1/learning-curves.svg" ] || fail "no learning curves"
    [ -s "$EBB_STATE/charts/experiment-1/parallel-coordinates.png" ] || fail "no parallel coordinates"
fi

# ---- a trial in C, events as JSON
cp -r "$source_dir/examples/c-trial" c
make -s -C c EBB_INCLUDE="$source_dir/include" >make.txt 2>&1 || fail "the C example does not build"
expect 0 "$ebb" run c/exp.yaml --json --no-charts --config searcher.max_steps=3 --config searcher.max_trials=2 --config batches_per_step=10
tail -n 1 out.txt >last.txt && mv last.txt out.txt
same "state of the C experiment" "$(field "x['experiment']['state']")" COMPLETED
trial=$(field "x['experiment']['best_trial_id']")
[ "$(field "x['experiment']['best_metric'] < 10")" = True ] || fail "no best metric: $(cat out.txt)"
expect 0 "$ebb" trial download "$trial" --best -o best
[ -s best/state/weights.safetensors ] && [ -s best/manifest.json ] || fail "the checkpoint is incomplete: $(find best)"

# ---- debug: true tells what is asked, in both clients
expect 0 "$ebb" run c/exp.yaml --no-charts --config debug=true --config 'searcher={name: single, metric: validation_loss, max_steps: 1}' --config batches_per_step=2 --state debug
expect 0 "$ebb" trial logs 1 --state debug
has out.txt "ebb worker: debug: done RUN_STEP, step 1"
expect 0 "$ebb" run class/exp.yaml --no-charts --config debug=true --config 'searcher={name: single, metric: validation_loss, max_steps: 1}' --config batches_per_step=2 --state debug
expect 0 "$ebb" trial logs 2 --state debug
has out.txt "ebb_client: DEBUG: done RUN_STEP, step 1"

# ---- warm start both ways: steps begin at 1, the first loss is that of the source
cat >warm.yaml <<'YAML'
entrypoint: [python3, train.py]
batches_per_step: 5
max_restarts: 0
reproducibility: {experiment_seed: 7}
hyperparameters: {global_batch_size: 4, learning_rate: 0.5}
searcher: {name: single, metric: validation_error, max_steps: 2}
YAML
mkdir loop && cp "$source_dir/examples/python-loop/train.py" loop/
expect 0 "$ebb" run warm.yaml loop --no-charts
expect 0 "$ebb" experiment list-trials 3 --json
source_trial=$(field "x['trials'][0]['id']")
source_metric=$(field "x['trials'][0]['best_validation']")
expect 0 "$ebb" experiment list-checkpoints 3 --json
uuid=$(field "x['checkpoints'][0]['uuid']")
n=4
for key in source_trial_id=$source_trial source_checkpoint_uuid=$uuid; do
    expect 0 "$ebb" run warm.yaml loop --no-charts --config "searcher.$key" --config searcher.max_steps=1
    expect 0 "$ebb" experiment list-trials $n --json
    same "steps after $key" "$(field "x['trials'][0]['steps']")" 1
    same "source of $key" "$(field "x['trials'][0]['warm_start_checkpoint']")" "$uuid"
    [ "$(field "x['trials'][0]['best_validation'] < $source_metric")" = True ] || fail "$key: not better than its source"
    expect 0 "$ebb" experiment logs $n
    has out.txt "started from Checkpoint"
    has out.txt "is_own=False"
    n=$((n + 1))
done
expect 2 "$ebb" run warm.yaml loop --config searcher.source_trial_id=999
has err.txt 999
expect 2 "$ebb" run warm.yaml loop --config searcher.source_checkpoint_uuid=00000000-0000-4000-8000-000000000000

# ---- PBT: children start from their parents' checkpoints
expect 0 "$ebb" run warm.yaml loop --slots 2 --config 'searcher={name: pbt, metric: validation_error, population_size: 3, num_rounds: 2, steps_per_round: 1, replace_function: {truncate_fraction: 0.34}, explore_function: {resample_probability: 0.0, perturb_factor: 0.2}}' \
    --config 'hyperparameters={global_batch_size: 4, learning_rate: {type: log, base: 10, minval: -3, maxval: 0}}'
has out.txt "Best: trial"
expect 0 "$ebb" experiment list-trials $n --json
same "trials of PBT" "$(field "len(x['trials'])")" 4
child=$(field "[t['id'] for t in x['trials'] if t['warm_start_checkpoint']][0]")
expect 0 "$ebb" trial logs "$child"
has out.txt "is_own=False"
n=$((n + 1))

# ---- a built-in model, trained in 12 MiB
if [ -f /usr/share/common-licenses/GPL-2 ] && "$ebb" help --all | grep -q '^  train '; then
    expect 0 "$ebb" run "$source_dir/examples/gpt_bytes.yaml" --no-charts --config searcher.max_steps=1 --config batches_per_step=2
    has out.txt "Best: trial"
    n=$((n + 1))
fi

# ---- test mode: four stages; a failing trial shows its log
expect 0 "$ebb" run warm.yaml loop --test-mode
has out.txt "checkpointing  ok"
expect 0 "$ebb" experiment list
grep -q "test-mode" out.txt && fail "test mode is in the list"
echo 'raise SystemExit("this is broken on purpose")' >loop/broken.py
expect 1 "$ebb" run warm.yaml loop --test-mode --config 'entrypoint=[python3, broken.py]'
has out.txt "training       failed"
has err.txt "broken on purpose"

expect 0 "$ebb" experiment create warm.yaml loop --test-mode --json
has out.txt '{"type": "stage", "stage": "validation", "ok": true}'
expect 0 "$ebb" experiment create warm.yaml loop --follow-first-trial --config 'entrypoint=[sh, -c, "echo hello from the trial; exec python3 train.py"]'
has out.txt "hello from the trial"

# ---- invalid files: every error, exit 2, nothing made
cat >bad.yaml <<'YAML'
entrypoint: [python3, train.py]
hyperparameters: {learning_rate: 1}
searcher: {name: single, metric: loss, max_step: 2}
YAML
expect 0 "$ebb" experiment list --json
before=$(field "x['total']")
expect 2 "$ebb" run bad.yaml
has err.txt "bad.yaml:3:40: searcher.max_step"
has err.txt "global_batch_size"
has err.txt "invalid: 3 errors"
expect 2 "$ebb" experiment create bad.yaml
expect 1 "$ebb" run nowhere.yaml
expect 2 "$ebb" run
expect 0 "$ebb" experiment list --json
same "experiments after invalid files" "$(field "x['total']")" "$before"

# ---- Ctrl-C: pauses in order, however long the step takes, and says how to go on; a second run is handed to the first
mkdir slow && cat >slow/train.py <<'PY'
import os, time, ebb_client
with ebb_client.connect() as ebb:
    for work in ebb.workloads():
        if work.is_train:
            for batch in work.batches():
                if work.step > 1:
                    open(ebb.hparam("go") + ".at", "w").close()
                while work.step > 1 and not os.path.exists(ebb.hparam("go")):
                    time.sleep(0.02)
                work.report(loss=1.0 / (batch + 1))
        elif work.is_validation:
            work.report(validation_error=1.0 / (work.step + 1))
        else:
            open(work.directory + "/x", "w").close()
PY
slow() { # slow GO: in the background, and until its second step waits for the file GO
    rm -f slow.out slow.err
    "$ebb" run warm.yaml slow --no-charts --slots 2 --config searcher.max_steps=5 --config min_validation_period=1 \
        --config batches_per_step=2 --config hyperparameters.go="$work/$1" >slow.out 2>slow.err &
    pid=$!
    wait_for grep -q "step 1:" slow.out
    wait_for test -e "$work/$1.at"
    id=$(sed -n 's/Created experiment //p' slow.out)
}
resumed() { # resumed HOW: the slow one goes on to its end, and nothing has failed
    expect 0 "$ebb" experiment list --json
    same "state after $1" "$(field "[e['state'] for e in x['experiments'] if e['id'] == $id][0]")" PAUSED
    expect 0 "$ebb" run --resume "$id" --no-charts
    has out.txt "COMPLETED"
    expect 0 "$ebb" experiment list-trials "$id" --json
    same "restarts after $1" "$(field "x['trials'][0]['restarts']")" 0
    same "steps after $1" "$(field "x['trials'][0]['steps']")" 5
}
slow go
expect 0 "$ebb" run warm.yaml loop --no-charts
has out.txt "COMPLETED"
kill -INT $pid
wait_for grep -q "ebb run --resume $id" slow.err
touch go
wait $pid
same "exit code after Ctrl-C" $? 1
expect 0 "$ebb" experiment list-checkpoints "$id" --json
same "checkpoint after Ctrl-C" "$(field "max(c['step_id'] for c in x['checkpoints'])")" 2
# nothing comes back by itself; what is active does, and is named
expect 0 "$ebb" run warm.yaml loop --no-charts
grep -q "goes on with" err.txt && fail "a paused experiment is taken along: $(cat err.txt)"
resumed "Ctrl-C"
expect 0 "$ebb" experiment create warm.yaml loop
other=$(sed -n 's/Created experiment //p' out.txt)
has err.txt "ebb run --resume $other"
expect 0 "$ebb" run warm.yaml loop --no-charts
has err.txt "also goes on with what is active here: experiment $other ('ebb experiment pause $other' stops one)"

# ---- the terminal goes away: as SIGTERM, with a checkpoint
slow hup
kill -HUP $pid
wait_for grep -q "ebb run --resume $id" slow.err
touch hup
wait $pid
same "exit code after SIGHUP" $? 1
expect 0 "$ebb" experiment list-checkpoints "$id" --json
same "checkpoint after SIGHUP" "$(field "max(c['step_id'] for c in x['checkpoints'])")" 2
resumed "SIGHUP"

# ---- Ctrl-C twice: at once, back to the last checkpoint; nobody is left behind
slow never
kill -INT $pid
wait_for grep -q "ebb run --resume $id" slow.err
kill -INT $pid
wait $pid
same "exit code after two Ctrl-C" $? 1
trial=$(sed -n 's/.*trial \([0-9]*\), step 1:.*/\1/p' slow.out)
same "processes left" "$(grep -lz "^EBB_CONFIG=$EBB_STATE/trials/$trial/config.json" /proc/[0-9]*/environ 2>/dev/null | wc -l)" 0
touch never
resumed "two Ctrl-C"

# ---- the first of two is gone: the second, which only watched, goes on as the master
slow first
"$ebb" run warm.yaml slow --no-charts --config searcher.max_steps=5 --config min_validation_period=1 --config batches_per_step=2 \
    --config hyperparameters.go="$work/second" >second.out 2>second.err &
second=$!
wait_for grep -q "step 1:" second.out
kill -KILL $pid
wait $pid 2>/dev/null
wait_for grep -q "this process goes on with experiment" second.err
touch first second
wait $second
same "exit code of the second" $? 0
for id in $id $(sed -n 's/Created experiment //p' second.out); do
    expect 0 "$ebb" run --resume "$id" --no-charts # the first one may have some way to go
    expect 0 "$ebb" experiment list-trials "$id" --json
    same "restarts after the change" "$(field "x['trials'][0]['restarts']")" 0
    same "steps after the change" "$(field "x['trials'][0]['steps']")" 5
done

# ---- whoever read the output has gone: as Ctrl-C
mkfifo pipe
head -n 3 pipe >head.txt & # created, running, step 1
head=$!
"$ebb" run warm.yaml slow --no-charts --config searcher.max_steps=5 --config min_validation_period=1 --config batches_per_step=2 \
    --config hyperparameters.go="$work/read" >pipe 2>slow.err &
pid=$!
wait $head
touch read
wait $pid
same "exit code without a reader" $? 1
id=$(sed -n 's/Created experiment //p' head.txt)
has slow.err "ebb run --resume $id"
resumed "a broken pipe"

finish
