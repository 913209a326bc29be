# The master with stores that fail it: an outage, kill -9 at many instants of an upload, cancelling, staging that is full.
. "$2/common.sh"
need node npm
need_node
serve_kind gcs
direct=$address
start_proxy
place gcs "$front"
left() { /usr/bin/python3 -c "import json, urllib.request as u
x = json.load(u.urlopen('$direct/storage/v1/b/ckpt/o')); print(len(x['items']), x['sessions'])"; }
received() { /usr/bin/python3 -c "import json, urllib.request as u
print(json.load(u.urlopen('$direct/storage/v1/b/ckpt/o'))['received'])"; }
states() { "$ebb" experiment list-checkpoints "$1" --json 2> /dev/null | field "sorted(set(c['state'] for c in x['checkpoints']))"; }

# Trials whose checkpoints also have SIZE bytes: large BYTES in an experiment's file.
large() { echo "environment: {environment_variables: [SIZE=$1]}"; }
mkdir big && sed 's/^                json.dump.*/&\n            with open(os.path.join(work.directory, "large"), "wb") as f:\n                f.write(random.Random(work.step).randbytes(int(os.environ.get("SIZE", "1000"))))/' \
    "$source_dir/examples/python-loop/train.py" > big/train.py
restarts() { "$ebb" experiment list-trials "$1" --json | field "sum(t['restarts'] for t in x['trials'])"; }
wait_for() { # SECONDS COMMAND...
    local n=$(($1 * 10)); shift
    for _ in $(seq $n); do "$@" > /dev/null 2>&1 && return 0; sleep 0.1; done
    return 1
}
uploads_wait() { "$ebb" master info --json | field "x['uploads']['checkpoints']" | grep -qv '^0$'; }

# ---- an outage: every request fails for a while; no trial is restarted, everything arrives
set_fault none 0
make_experiment exp.yaml '{type: gcs, bucket: ckpt, save_trial_latest: 9}'
"$ebb" experiment create --paused exp.yaml big > out.txt 2>&1 || fail "create: $(cat out.txt)"
set_fault 503 all
timeout 300 "$ebb" run --resume 1 --no-charts > run.txt 2>&1 &
pid=$!
wait_for 60 sh -c "'$ebb' master info --json | grep -q 503" || fail "nothing said: $("$ebb" master info --json)"
[ "$(states 1)" = "['ACTIVE']" ] || fail "states: $(states 1)"
"$ebb" experiment describe 1 --json | grep -q 503 || fail "the experiment does not say it"
steps() { [ "$("$ebb" experiment list-trials 1 --json | field "x['trials'][0]['steps']")" = "$1" ]; }
wait_for 60 steps 3 || fail "it does not train while two wait: $("$ebb" experiment list-trials 1 --json)"
sleep 1
waiting=$("$ebb" master info --json | field "x['uploads']['checkpoints']")
[ "$waiting" = 2 ] || fail "$waiting checkpoints of a trial wait"
set_fault none 1
wait $pid || fail "run: $(cat run.txt)"
[ "$(states 1)" = "['COMPLETED']" ] && [ "$(restarts 1)" = 0 ] || fail "states: $(states 1)"
ok "an outage: said; two checkpoints wait, the third until there is room; nothing counted, everything arrived"

# ---- in an outage a trial that is killed starts again from the staged copy
make_experiment exp.yaml '{type: gcs, bucket: ckpt, save_trial_latest: 9}' 'batches_per_step: 400000'
sed -i '/^batches_per_step: 5$/d; s/max_steps: 3/max_steps: 2/' exp.yaml
"$ebb" experiment create --paused exp.yaml big > out.txt 2>&1 || fail "create: $(cat out.txt)"
set_fault 503 all
timeout 300 "$ebb" run --resume 2 --no-charts > run.txt 2>&1 &
pid=$!
wait_for 100 uploads_wait || fail "no checkpoint: $(cat run.txt)"
trial=$(for p in /proc/[0-9]*; do case $(readlink "$p/cwd") in "$RUN"/state/trials/2/work) basename "$p" ;; esac; done)
[ -n "$trial" ] && kill -9 $trial || fail "no trial to kill"
sleep 2
set_fault none 2
wait $pid || fail "run: $(cat run.txt)"
"$ebb" trial logs 2 > logs.txt 2>&1
has logs.txt "started from"
has logs.txt "/staging/"
[ "$(restarts 2)" = 1 ] || fail "restarts: $(restarts 2)"
ok "a trial killed in an outage goes on from the staged copy"

# ---- cancelled in an outage: nothing waits, and when the store is back nothing is left of it
make_experiment exp.yaml '{type: gcs, bucket: ckpt}' 'batches_per_step: 100000'
sed -i '/^batches_per_step: 5$/d; s/max_steps: 3/max_steps: 50/' exp.yaml
"$ebb" experiment create --paused exp.yaml big > out.txt 2>&1 || fail "create: $(cat out.txt)"
before=$(left)
set_fault 503 all
timeout 300 "$ebb" run --resume 3 --no-charts > run.txt 2>&1 &
pid=$!
wait_for 60 uploads_wait || fail "no checkpoint: $(cat run.txt)"
timeout 60 "$ebb" experiment cancel 3 > out.txt 2>&1 || fail "cancel: $(cat out.txt)"
wait_for 30 sh -c "'$ebb' experiment describe 3 --json | grep -q '\"CANCELED\"'" || fail "cancel waits: $("$ebb" experiment describe 3 --json)"
wait $pid
[ "$(states 3)" = "['ERROR']" ] || fail "states: $(states 3)"
[ -z "$(ls state/staging | grep -v journal)" ] || fail "staging: $(ls state/staging)"
set_fault none 3
timeout 100 "$ebb" experiment delete 3 --yes > out.txt 2>&1 || fail "delete: $(cat out.txt)"
[ "$(left)" = "$before" ] && [ -z "$(ls state/staging)" ] || fail "left: $(left), $(ls state/staging)"
ok "cancelled in an outage: nothing waits, nothing is left"

# ---- too much waits: the trial waits, too, and goes on
printf 'staging: 2MiB\ncache: 4MiB\n' > state/master.yaml
make_experiment exp.yaml '{type: gcs, bucket: ckpt, save_trial_latest: 20}' "$(large 1500000)"
sed -i 's/max_steps: 3/max_steps: 8/' exp.yaml
"$ebb" experiment create --paused exp.yaml big > out.txt 2>&1 || fail "create: $(cat out.txt)"
set_fault 503 all
timeout 300 "$ebb" run --resume 4 --no-charts > run.txt 2>&1 &
pid=$!
wait_for 60 uploads_wait
sleep 5
steps=$("$ebb" experiment list-trials 4 --json | field "x['trials'][0]['steps']")
[ "$steps" -lt 4 ] || fail "the trial does not wait: step $steps"
set_fault none 4
wait $pid || fail "run: $(cat run.txt)"
[ "$(states 4)" = "['COMPLETED']" ] && [ "$(restarts 4)" = 0 ] || fail "states: $(states 4)"
ok "a full staging: the trial waits at step $steps and goes on"

# ---- copies that were read or uploaded are kept up to a limit, the oldest go; one that went is fetched again, once
used() { find state/cache -type f -printf '%s\n' | awk '{ s += $1 } END { print s + 0 }'; }
"$ebb" experiment list-checkpoints 4 --json > list.json
oldest=$(field "min((c['step_id'], c['uuid']) for c in x['checkpoints'])[1]" < list.json)
newest=$(field "max((c['step_id'], c['uuid']) for c in x['checkpoints'])[1]" < list.json)
[ "$(used)" -le 4194304 ] && [ -d "state/cache/$newest" ] && [ ! -e "state/cache/$oldest" ] || fail "cache: $(used) bytes, $(ls state/cache)"
set_fault none 4.5
timeout 100 "$ebb" checkpoint download "$oldest" first > out.txt 2>&1 || fail "download: $(cat out.txt)"
asked=$(cut -d' ' -f1 "$control.count")
timeout 100 "$ebb" checkpoint download "$oldest" again > out.txt 2>&1 || fail "download: $(cat out.txt)"
[ "$(cut -d' ' -f1 "$control.count")" = "$asked" ] || fail "fetched twice: $asked requests, then $(cat "$control.count")"
same_tree first again
[ -z "$(find "state/cache/$oldest" -type f -perm /222)" ] || fail "a fetched copy can be written"
rm -r state/master.yaml first again
ok "the cache holds its limit, loses the oldest, fetches once ($asked requests), read-only"

# ---- the master is killed at instants of an upload: the next one goes on where it was
size=${EBB_KILL_BYTES:-200000000} kills=${EBB_KILLS:-4} worst=0
make_experiment exp.yaml '{type: gcs, bucket: ckpt}' "$(large $size)"
sed -i 's/max_steps: 3/max_steps: 1/' exp.yaml
for i in $(seq $kills); do
    before=$(received)
    "$ebb" run exp.yaml big --no-charts > run.txt 2>&1 & # no timeout before it: that would be killed instead
    pid=$!
    wait_for 60 sh -c 'grep -qs upload state/staging/*.journal' || fail "no upload: $(cat run.txt)"
    sleep "$(/usr/bin/python3 -c "print($i * ${EBB_KILL_SECONDS:-2.0} / $kills)")"
    kill -9 $pid 2> /dev/null
    wait $pid 2> /dev/null
    id=$((4 + i))
    timeout 300 "$ebb" run --resume $id --no-charts > run.txt 2>&1
    [ "$(states $id)" = "['COMPLETED']" ] && [ "$(restarts $id)" = 0 ] || fail "kill $i: $(states $id) $(cat run.txt)"
    sent=$(($(received) - before))
    [ $sent -gt $worst ] && worst=$sent
    [ $((sent * 100)) -lt $((size * 105)) ] || fail "kill $i: sent $sent bytes of $size"
done
ok "killed at $kills instants of an upload of $size bytes: at most $worst bytes sent"

# ---- killed between the commit and the end of the staged copy: the next master clears it
one=$(ls state/cache | head -1)
mv "state/cache/$one" state/staging/ && echo stale > "state/staging/$one.journal"
sed -i "s/environment_variables: \[SIZE=.*\]/environment_variables: []/" exp.yaml
timeout 100 "$ebb" run exp.yaml big --no-charts > run.txt 2>&1 || fail "run: $(cat run.txt)"
[ -z "$(ls state/staging)" ] && [ -d "state/cache/$one" ] || fail "staging: $(ls state/staging)"
ok "a copy that a killed master left in the staging is cleared"

# ---- population-based training, clones from the store
cat > pbt.yaml <<END
entrypoint: [/usr/bin/python3, train.py]
batches_per_step: 5
hyperparameters: {global_batch_size: 4, learning_rate: {type: double, minval: 0.1, maxval: 0.5}}
searcher: {name: pbt, metric: validation_error, population_size: 4, steps_per_round: 1, num_rounds: 3,
           replace_function: {truncate_fraction: 0.5}, explore_function: {resample_probability: 0.2, perturb_factor: 0.2}}
checkpoint_storage: {type: gcs, bucket: ckpt}
END
timeout 300 "$ebb" run pbt.yaml big --slots 2 --no-charts > run.txt 2>&1 || fail "PBT: $(cat run.txt)"
has run.txt COMPLETED
ok "population-based training"

# ---- Ctrl-C in an outage: it does not wait for the store, and the next master uploads what is left
make_experiment exp.yaml '{type: gcs, bucket: ckpt, save_trial_latest: 9}' 'batches_per_step: 100000'
sed -i '/^batches_per_step: 5$/d; s/max_steps: 3/max_steps: 4/' exp.yaml
"$ebb" experiment create --paused exp.yaml big > out.txt 2>&1 || fail "create: $(cat out.txt)"
id=$("$ebb" experiment list --all --json | field "max(e['id'] for e in x['experiments'])")
set_fault 503 all
env --default-signal=INT "$ebb" run --resume "$id" --no-charts > run.txt 2>&1 &
pid=$!
wait_for 60 uploads_wait || fail "no checkpoint: $(cat run.txt)"
kill -INT $pid
wait_for 60 sh -c "! kill -0 $pid" || { kill -9 $pid; fail "Ctrl-C waits for the store: $(cat run.txt)"; }
wait $pid
states "$id" | grep -q ACTIVE && [ -n "$(ls state/staging)" ] || fail "after Ctrl-C: $(states "$id"), $(ls state/staging)"
set_fault none 6
timeout 300 "$ebb" run --resume "$id" --no-charts > run.txt 2>&1 || fail "run: $(cat run.txt)"
[ "$(states "$id")" = "['COMPLETED']" ] && [ "$(restarts "$id")" = 0 ] && [ -z "$(ls state/staging)" ] || fail "states: $(states "$id")"
ok "Ctrl-C in an outage leaves the rest to the next master"

# ---- staged copies that are damaged or gone before the store is back: never COMPLETED and wrong; made again, and it ends
last_id() { "$ebb" experiment list --all --json | field "max(e['id'] for e in x['experiments'])"; }
staged() { [ "$(ls state/staging | grep -c '^[0-9a-f-]*$')" = 2 ]; }
flip() { /usr/bin/python3 -c "
import sys
with open(sys.argv[1], 'r+b') as f: f.seek(500); b = f.read(1); f.seek(500); f.write(bytes([b[0] ^ 1]))" "$1"; }
for size in 1000 12000000; do # proved before it goes, and before its manifest does
    make_experiment exp.yaml '{type: gcs, bucket: ckpt, save_trial_latest: 9}' "$(large $size)"
    "$ebb" experiment create --paused exp.yaml big > out.txt 2>&1 || fail "create: $(cat out.txt)"
    id=$(last_id)
    set_fault 503 all
    timeout 300 "$ebb" run --resume "$id" --no-charts > run.txt 2>&1 &
    pid=$!
    wait_for 60 staged || fail "no two checkpoints: $(cat run.txt)"
    two=$("$ebb" experiment list-checkpoints "$id" --json | field "max((c['step_id'], c['uuid']) for c in x['checkpoints'])[1]")
    one=$(ls state/staging | grep '^[0-9a-f-]*$' | grep -v "$two")
    wait_for 60 sh -c "[ -e state/staging/$one.journal ]" || fail "no try: $(cat run.txt)"
    if [ $size = 1000 ]; then rm -r "state/staging/$one"; else flip "state/staging/$one/large"; fi
    flip "state/staging/$two/large"
    set_fault none 9
    wait $pid || fail "damaged copies: $(cat run.txt)"
    states "$id" | grep -q COMPLETED && ! states "$id" | grep -q ACTIVE && [ "$(restarts "$id")" = 0 ] || fail "damaged copies: $(states "$id")"
    for u in $("$ebb" experiment list-checkpoints "$id" --json | field "' '.join(c['uuid'] for c in x['checkpoints'] if c['state'] == 'COMPLETED')"); do
        second gcs compare "$u" || fail "$u is COMPLETED and wrong"
    done
    "$ebb" trial logs "$("$ebb" experiment list-trials "$id" --json | field "x['trials'][0]['id']")" > logs.txt 2>&1
    has logs.txt "is lost: the staged"
    timeout 100 "$ebb" experiment delete "$id" --yes > out.txt 2>&1 || fail "delete: $(cat out.txt)"
    [ -z "$(ls state/staging)" ] || fail "staging: $(ls state/staging)"
    ok "staged copies of $size bytes damaged before their upload: lost, said, made again"
done

# ---- the master is killed while somebody waits for a deletion: who waits says so and goes, the next master deletes
make_experiment exp.yaml '{type: gcs, bucket: ckpt}'
timeout 100 "$ebb" run exp.yaml big --no-charts > run.txt 2>&1 || fail "run: $(cat run.txt)"
id=$(last_id)
"$ebb" serve --listen 127.0.0.1:$((PORT + 14)) > serve.txt 2>&1 &
master=$!
serve_pids+=($master)
wait_for 30 grep -q Listening serve.txt || fail "no master: $(cat serve.txt)"
set_fault 503 all
timeout 60 "$ebb" experiment delete "$id" --yes > delete.txt 2>&1 &
pid=$!
wait_for 30 sh -c "'$ebb' experiment describe $id --json | grep -q DELETING" || fail "not deleting: $(cat delete.txt)"
kill -9 $master
wait_for 20 sh -c "! kill -0 $pid" || fail "who waits for a deletion keeps the state directory"
has delete.txt "a master goes on with deleting it"
set_fault none 10
timeout 100 "$ebb" run exp.yaml big --no-charts > run.txt 2>&1 || fail "the next master: $(cat run.txt)"
wait_for 10 sh -c "! '$ebb' experiment describe $id --json" || fail "not deleted"
ok "the master is killed in a deletion: told, and done by the next one"

# ---- refused for a while: who asks is told why, by every door; the trial is not to blame
make_experiment exp.yaml '{type: gcs, bucket: ckpt, save_trial_latest: 9}'
"$ebb" experiment create --paused exp.yaml big > out.txt 2>&1 || fail "create: $(cat out.txt)"
id=$(last_id)
set_fault 403 all
env --default-signal=INT "$ebb" run --resume "$id" --no-charts > run.txt 2>&1 &
pid=$!
wait_for 60 grep -q "note: .*tried again every 30 s: gcs: .* 403: .*AccessDenied" run.txt || fail "run does not say it: $(cat run.txt)"
"$ebb" master info > out.txt && has out.txt "403: " && has out.txt AccessDenied
"$ebb" experiment describe "$id" > out.txt && has out.txt "Experiment $id: 2 checkpoints" && has out.txt "on the way to the store, tried again every 30 s: gcs: "
kill -INT $pid && wait $pid
timeout 300 "$ebb" run --resume "$id" --no-charts > run.txt 2>&1 & # the next master: its first try fails after it has told of them
pid=$!
wait_for 60 grep -q "note: .*tried again every 30 s: gcs: .* 403: .*AccessDenied" run.txt || fail "the next run does not say it: $(cat run.txt)"
set_fault none 11
wait $pid || fail "run: $(cat run.txt)"
[ "$(states "$id")" = "['COMPLETED']" ] && [ "$(restarts "$id")" = 0 ] || fail "states: $(states "$id")"
ok "refused: the answer's code and text are told by run, master info and the experiment; nothing counted, everything arrived"

# ---- event files that are refused hold their experiment, which says so
make_experiment exp.yaml "{type: shared_fs, host_path: $RUN/fs}" 'tensorboard_storage: {type: gcs, bucket: ckpt}'
"$ebb" experiment create --paused exp.yaml loop > out.txt 2>&1 || fail "create: $(cat out.txt)"
id=$(last_id)
set_fault 403 all
timeout 300 "$ebb" run --resume "$id" --no-charts > run.txt 2>&1 &
pid=$!
wait_for 60 grep -q "note: event files on the way to the store, tried again every 30 s: .* 403: " run.txt || fail "run does not say it: $(cat run.txt)"
"$ebb" experiment describe "$id" > out.txt && has out.txt "Experiment $id: event files on the way to the store, tried again every 30 s: "
set_fault none 12
wait $pid || fail "run: $(cat run.txt)"
ok "event files that are refused: said"

# ---- a disk that is full of cached copies: they go, and the trial goes on
clean_up() { umount "$RUN/small" 2> /dev/null; }
mkdir small
if mount -t tmpfs -o size=40m none small 2> /dev/null; then
    make_experiment exp.yaml '{type: gcs, bucket: ckpt, save_trial_latest: 9}' "$(large 12000000)"
    sed -i 's/max_steps: 3/max_steps: 6/' exp.yaml
    EBB_STATE=$RUN/small timeout 200 "$ebb" run exp.yaml big --no-charts > run.txt 2>&1 || fail "a full disk: $(tail -n 5 run.txt)"
    [ "$(EBB_STATE=$RUN/small restarts 1)" = 0 ] && [ "$(EBB_STATE=$RUN/small states 1)" = "['COMPLETED']" ] || fail "a full disk: $(EBB_STATE=$RUN/small states 1)"
    EBB_STATE=$RUN/small timeout 100 "$ebb" experiment delete 1 --yes > out.txt 2>&1 || fail "delete: $(cat out.txt)"
    ok "a disk full of cached copies: they go, all six of 12 MB arrive through 40 MB"
fi

# ---- everything deleted: nothing is left anywhere
for id in $("$ebb" experiment list --all --json | field "' '.join(str(e['id']) for e in x['experiments'])"); do
    timeout 100 "$ebb" experiment delete "$id" --yes > out.txt 2>&1 || fail "delete $id: $(cat out.txt)"
done
[ "$(left)" = "0 0" ] && [ -z "$(ls state/staging state/cache | grep -v :)" ] || fail "left: $(left), $(ls state/staging state/cache)"
ok "everything deleted: bucket, sessions, staging and cache are empty"
exit 0
