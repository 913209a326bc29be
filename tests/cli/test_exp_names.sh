# Users, the cluster's nouns, options before the command, short names, storage: with and without a running master.
# $1 = the ebb program, $2 = source folder
. "$2/tests/cli/exp_common.sh"
unset EBB_USER DET_USER

cat >exp.yaml <<'YAML'
description: names
entrypoint: [python3, train.py]
batches_per_step: 3
hyperparameters: {global_batch_size: 4, learning_rate: {type: log, base: 10, minval: -2, maxval: 0}}
searcher: {name: random, metric: validation_error, max_steps: 2, max_trials: 2}
YAML
mkdir def && cp "$source_dir/examples/python-loop/train.py" def/

# ---- options before the command; short names; a missing verb
expect 0 "$ebb" -v
has out.txt "ebb "
expect 0 "$ebb" e --json
same "experiments" "$(field "x['total']")" 0
for words in "e -a" "exper list" "tpl" "templ --csv" "ag" "sl" "tas" "u" "a list" "s list"; do
    # shellcheck disable=SC2086
    expect 0 "$ebb" $words
done
expect 2 "$ebb" te
has err.txt "template tensorboard"
expect 2 "$ebb" e list --csv --json
has err.txt "only one of --csv and --json"
expect 2 "$ebb" -m
expect 2 "$ebb" -m host:1 sim
has err.txt "unknown option --master"
expect 1 "$ebb" -m 127.0.0.1:1 e
has err.txt "127.0.0.1:1"
expect 1 "$ebb" -m '[::1]:1' e
has err.txt "::1]:1"
for address in ':1' '[::1' '[::1]x' 'host:0' 'host:99999' 'host:x' ''; do
    expect 2 "$ebb" -m "$address" e
done
expect 1 "$ebb" -m https://host e
has err.txt "https"
expect 1 "$ebb" --master=127.0.0.1:1 experiment describe -- 1
for noun in experiment trial checkpoint template agent slot task tensorboard user master; do
    expect 0 "$ebb" $noun help
    has out.txt "Usage: ebb $noun VERB"
    expect 2 "$ebb" $noun no-such-verb
done

# ---- users
account=$(id -un)
expect 0 "$ebb" user whoami
same "whoami" "$(cat out.txt)" "$account"
expect 1 "$ebb" -u ada e
has err.txt "ebb user create ada"
expect 0 env EBB_USER=ada "$ebb" user create ada
expect 1 "$ebb" user create ada
expect 2 "$ebb" user create "a da"
expect 0 "$ebb" e create exp.yaml def --paused
expect 0 "$ebb" -u ada e create exp.yaml def --paused
expect 0 env EBB_USER=ada "$ebb" e create exp.yaml def --paused
expect 0 "$ebb" e list --csv
same "own experiments" "$(tail -n +2 out.txt | cut -d, -f1,2 | tr -d '\r' | tr '\n' ' ')" "1,$account "
expect 0 "$ebb" e list --csv -u ada
same "ada's experiments" "$(tail -n +2 out.txt | cut -d, -f1,2 | tr -d '\r' | tr '\n' ' ')" "3,ada 2,ada "
expect 0 "$ebb" e list -a --csv
same "all experiments" "$(tail -n +2 out.txt | wc -l)" 3
expect 0 "$ebb" user list --json
same "users" "$(field "sorted((u['name'], u['num_experiments']) for u in x['users'])")" "$(python3 -c "print(sorted([('$account', 1), ('ada', 2)]))")"
expect 0 "$ebb" user deactivate ada
expect 1 env DET_USER=ada "$ebb" e
has err.txt "not active"
expect 1 "$ebb" user deactivate "$account"
expect 0 "$ebb" user activate ada
expect 1 "$ebb" user activate eve
expect 1 "$ebb" user login ada
has err.txt "no passwords"

# ---- storage
expect 0 "$ebb" checkpoint validate-storage
has out.txt "$EBB_STATE/checkpoints"
printf 'checkpoint_storage: {type: shared_fs, host_path: %s/store}\n' "$work" | cat exp.yaml - >store.yaml
expect 0 "$ebb" checkpoint validate-storage store.yaml --json
same "storage" "$(field "x['storage']['directory']")" "$work/store"
same "left behind" "$(find store -mindepth 1 | wc -l)" 0
printf 'checkpoint_storage: {type: shared_fs, host_path: /dev/null/store}\n' | cat exp.yaml - >bad.yaml
expect 1 "$ebb" checkpoint validate-storage bad.yaml
printf 'checkpoint_storage: {type: shared_fs, host_paths: /x}\n' | cat exp.yaml - >bad.yaml
expect 2 "$ebb" checkpoint validate-storage bad.yaml
has err.txt "host_paths"
expect 0 "$ebb" checkpoint validate-storage --experiment 1
expect 1 "$ebb" checkpoint validate-storage --experiment 99
expect 2 "$ebb" checkpoint validate-storage exp.yaml --experiment 1
expect 2 "$ebb" checkpoint describe
expect 1 "$ebb" checkpoint describe 'a/b?c'
has err.txt "no checkpoint a/b?c"

# ---- test mode checks the file it is derived from
sed 's/max_trials: 2/max_trials: 0/' exp.yaml >bad.yaml
expect 2 "$ebb" e create bad.yaml def --test-mode
has err.txt "searcher.max_trials"
expect 2 "$ebb" e create exp.yaml def --config searcher.max_step=2
has err.txt "exp.yaml (with --config)"
echo 'searcher: {name: random, metric: validation_error, max_steps: 2, max_trials: 0}' >t.yaml
expect 0 "$ebb" template set broken t.yaml
grep -v '^searcher' exp.yaml >part.yaml
expect 2 "$ebb" e create part.yaml def --test-mode --template broken
has err.txt "searcher.max_trials"
expect 0 "$ebb" template remove broken
expect 0 "$ebb" template set 'a b/c' t.yaml
expect 0 "$ebb" template list --csv
has out.txt 'a b/c'
expect 0 "$ebb" template remove 'a b/c'

# ---- a master beside: slots, tasks, its configuration and log
cat >slow.yaml <<'YAML'
entrypoint: [python3, slow.py]
batches_per_step: 1
hyperparameters: {global_batch_size: 1}
searcher: {name: random, metric: m, max_steps: 1000000, max_trials: 2}
YAML
mkdir slow && cat >slow/slow.py <<'PY'
import time
import ebb_client
with ebb_client.connect() as ebb:
    for work in ebb.workloads():
        if work.is_train:
            for batch in work.batches():
                time.sleep(0.05)
                work.report(loss=1.0)
        elif work.is_validation:
            work.report(m=1.0)
PY
"$ebb" run slow.yaml slow --slots 2 --no-charts >run.txt 2>&1 &
master=$!
busy() { [ "$("$ebb" slot list --csv 2>/dev/null | tail -n +2 | cut -d, -f4 | grep -c '[0-9]')" = "$1" ]; }
wait_for busy 2
expect 0 "$ebb" task list
has out.txt "RUNNING"
expect 0 "$ebb" agent list --json
same "enabled" "$(field "x['agents'][0]['enabled']")" True
expect 0 "$ebb" slot disable 1
wait_for busy 1
expect 0 "$ebb" slot enable local 1
wait_for busy 2
expect 0 "$ebb" agent disable
has out.txt "Disabled agent local"
wait_for busy 0
expect 0 "$ebb" agent enable local
wait_for busy 2
expect 1 "$ebb" slot disable 7
has err.txt "there are 0 to 1"
expect 2 "$ebb" slot disable x
expect 2 "$ebb" slot disable moon 0
expect 1 "$ebb" agent disable moon
expect 0 "$ebb" master config
has out.txt "slots: 2"
has out.txt "type: fair_share"
expect 0 "$ebb" master config --json
same "slots" "$(field "x['slots']")" 2
expect 0 "$ebb" master logs --tail 1
same "lines of the log" "$(wc -l <out.txt)" 1
expect 0 "$ebb" experiment kill 4
wait "$master"
expect 0 "$ebb" master logs
has out.txt "experiment 4: CANCELED"
has out.txt "process $master ends"
expect 2 "$ebb" master logs --tail -1

# ---- what every master is started with
cat >"$EBB_STATE/master.yaml" <<YAML
slots: 3
threads_per_slot: 1
scheduler: {type: priority, fit: worst}
slot_memory: 2GiB
checkpoint_storage: {type: shared_fs, host_path: $work/site, save_trial_best: 3}
YAML
expect 0 "$ebb" master config --json
same "master.yaml" "$(field "(x['slots'], x['threads_per_slot'], x['scheduler']['type'], x['scheduler']['fit'], x['slot_memory_bytes'], x['checkpoint_storage']['host_path'])")" \
    "(3, 1, 'priority', 'worst', 2147483648, '$work/site')"
expect 0 "$ebb" checkpoint validate-storage
has out.txt "$work/site"
expect 0 "$ebb" run exp.yaml def --no-charts --slots 2
has out.txt "$work/site/"
expect 0 "$ebb" experiment config 5 --json
same "storage of the site" "$(field "(x['checkpoint_storage']['host_path'], x['checkpoint_storage']['save_trial_best'])")" "('$work/site', 3)"
expect 0 "$ebb" master logs --tail 3
has out.txt "2 slots"
while IFS='|' read -r line message; do
    printf '%s\n' "$line" >"$EBB_STATE/master.yaml"
    expect 2 "$ebb" e
    has err.txt "master.yaml"
    has err.txt "$message"
done <<'CASES'
slot: 3|slot: unknown key, nearest: slots
slots: 0|slots: found 0, allowed: an integer > 0, <= 4096
slots: many|slots: found "many", allowed
pin_cpus: 1|pin_cpus: found 1, allowed: true or false
slot_memory: 7|slot_memory: found 7, allowed: bytes with a unit
scheduler: {typ: priority}|scheduler.typ: unknown key, nearest: type
scheduler: {type: random}|scheduler.type: found "random", allowed: fair_share, priority
checkpoint_storage: {type: shared_fs}|host_path
- 1|allowed: a mapping
CASES
echo 'checkpoint_storage: {type: azure, bucket: b}' >"$EBB_STATE/master.yaml"
expect 2 "$ebb" e
has err.txt 'found "azure", allowed: shared_fs, s3, gcs, hdfs'
: >"$EBB_STATE/master.yaml"
expect 0 "$ebb" e
rm "$EBB_STATE/master.yaml"

finish
