# Trials that flood, lie, crash, fork and fall silent: each ends at worst itself, with words that say why; and a master that is killed.
# $1 = the ebb program, $2 = source folder
. "$2/tests/cli/exp_common.sh"

mkdir def && cp "$source_dir/tests/cli/hostile_trial.py" def/
trial() { # trial WAY CODE [OPTION...]
    local way=$1 code=$2
    shift 2
    cat >exp.yaml <<YAML
description: $way
entrypoint: [python3, hostile_trial.py, $way]
batches_per_step: 2
max_restarts: 0
hyperparameters: {global_batch_size: 1}
searcher: {name: single, metric: validation_error, max_steps: 1}
YAML
    expect "$code" "$ebb" run exp.yaml def --no-charts --slots 2 "$@"
}

trial garbage 1
has err.txt "Last lines of trial"
trial endless-line 1
trial liar 1
has err.txt "not asked for"
trial leaves 1
trial crashes 1 --config max_restarts=1
has err.txt "about to crash"
expect 0 "$ebb" experiment list --json --description crashes
id=$(field "x['experiments'][0]['id']")
expect 0 "$ebb" experiment list-trials "$id" --json
same "restarts of what crashes" "$(field "x['trials'][0]['restarts']")" 1
trial impostor 1
has err.txt "REFUSED"
trial wrong-metric 1
has err.txt "accuracy"
trial no-checkpoint 1
trial link 1
trial nan 0
has out.txt "NaN (counts as the worst value)"
export EBB_HEARTBEAT_MS=1500 # a minute is long
trial silent 1
trial mute 1
unset EBB_HEARTBEAT_MS

# Much output: kept, readable, the trial goes on.
trial flood 0
expect 0 "$ebb" experiment list --json --description flood
id=$(field "x['experiments'][0]['id']")
expect 0 "$ebb" experiment logs "$id" --tail 1
has out.txt "without end of line"
grep -q $'\x1b' out.txt && fail "escape sequences of a log reach the terminal"

# Reasons of any length with escape sequences in them: cut, and harmless, wherever they are shown.
trial reason 1
sizes() { wc -c <out.txt; wc -c <err.txt; }
[ "$(sizes | sort -n | tail -1)" -lt 20000 ] || fail "a long reason is printed: $(sizes | tr '\n' ' ')"
cat out.txt err.txt >shown.txt
expect 0 "$ebb" experiment list --json --description reason
id=$(field "x['experiments'][0]['id']")
expect 0 "$ebb" experiment list-trials "$id" --json
trial_id=$(field "x['trials'][0]['id']")
expect 0 "$ebb" trial describe "$trial_id"
cat out.txt >>shown.txt
grep -q $'\x1b\\|\xc2\x9b' shown.txt && fail "escape sequences of a reason reach the terminal"
trial reason-invalid 1
[ "$(sizes | sort -n | tail -1)" -lt 20000 ] || fail "a long reason is printed: $(sizes | tr '\n' ' ')"
grep -q $'\x1b\\|\xc2\x9b' out.txt err.txt && fail "escape sequences of a reason reach the terminal"

# Children: none is left when the trial has ended.
left() { grep -lz "^EBB_CONFIG=$EBB_STATE/" /proc/[0-9]*/environ 2>/dev/null | wc -l; } # processes of any trial of ours
none_left() { [ "$(left)" = 0 ]; }
trial children 0
wait_for none_left
trial runaways 0
wait_for none_left

# The master is killed: the next one takes the trial over; nothing is repeated, no restart is counted.
cat >slow.py <<'PY'
import time, ebb_client
with ebb_client.connect() as ebb:
    for work in ebb.workloads():
        if work.is_train:
            for batch in work.batches():
                time.sleep(0.05)
                print("batch %d" % batch, flush=True)
                work.report(loss=1.0)
        elif work.is_validation:
            work.report(validation_error=1.0 / (work.step + 1))
        else:
            open(work.directory + "/x", "w").close()
PY
mv slow.py def/
"$ebb" run exp.yaml def --no-charts --config 'entrypoint=[python3, slow.py]' --config searcher.max_steps=16 --config min_validation_period=1 >slow.out 2>&1 &
pid=$!
wait_for grep -q "step 3:" slow.out
kill -KILL $pid
wait $pid 2>/dev/null
id=$(sed -n 's/Created experiment //p' slow.out)
expect 0 "$ebb" run --resume "$id" --no-charts
has out.txt COMPLETED
expect 0 "$ebb" experiment list-trials "$id" --json
same "restarts after the master was killed" "$(field "x['trials'][0]['restarts']")" 0
same "steps after the master was killed" "$(field "x['trials'][0]['steps']")" 16
expect 0 "$ebb" experiment logs "$id"
same "batches trained" "$(grep -c '^batch' out.txt)" 32
same "batches trained once" "$(grep '^batch' out.txt | sort -u | wc -l)" 32

# The disk is full for a while: the run waits, says so, answers others, and goes on; nothing has failed.
state=$EBB_STATE
export EBB_STATE=$work/full
cat >wait.py <<'PY'
import os, time, ebb_client
with ebb_client.connect() as ebb:
    for work in ebb.workloads():
        if work.is_train:
            for batch in work.batches():
                while work.step > 2 and not os.path.exists(ebb.hparam("go")):
                    time.sleep(0.05)
                work.report(loss=1.0)
        elif work.is_validation:
            work.report(validation_error=1.0 / (work.step + 1))
        else:
            open(work.directory + "/x", "w").close()
PY
mv wait.py def/
(trap '' XFSZ; exec "$ebb" run exp.yaml def --no-charts --config 'entrypoint=[python3, wait.py]' --config searcher.max_steps=6 \
    --config min_validation_period=1 --config hyperparameters.go="$work/go") >full.out 2>full.err &
pid=$!
wait_for grep -q "step 2:" full.out
prlimit --pid $pid --fsize=4096:unlimited
touch go
wait_for grep -q "trials wait until it can be written again" full.err
expect 0 "$ebb" master info --json
same "stalled" "$(field "x['is_stalled']")" True
expect 1 "$ebb" experiment list
prlimit --pid $pid --fsize=unlimited:unlimited
wait $pid
same "exit code after a full disk" $? 0
has full.out "COMPLETED"
expect 0 "$ebb" experiment list-trials 1 --json
same "restarts after a full disk" "$(field "x['trials'][0]['restarts']")" 0
export EBB_STATE=$state

finish
