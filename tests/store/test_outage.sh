# Outages: one of $EBB_OUTAGE_SECONDS (600) in which nobody answers, then $EBB_OUTAGE_SOAK (1800) seconds of experiments while the
# server comes and goes, is slow to answer, cuts and refuses. No restart is counted, everything arrives, nothing is left.
. "$2/common.sh"
need node npm
need_node
serve_gcs || fail "the server does not start"
direct=$STORAGE_EMULATOR_HOST control=$RUN/control proxy=$((PORT + 12)) seed=${EBB_OUTAGE_SEED:-$RANDOM}
export STORAGE_EMULATOR_HOST=http://127.0.0.1:$proxy
weather=
up() {
    node "$STORE_TESTS/fault_proxy.js" $proxy "$direct" "$control" >> proxy.log 2>&1 &
    echo $! > proxy.pid
    serve_wait $proxy "the proxy"
}
down() { kill "$(cat proxy.pid)"; } 2> /dev/null
clean_up() {
    [ -z "$weather" ] || kill $weather 2> /dev/null
    down
}
set_fault() { echo "$*" > "$control"; }
# Objects of checkpoints and event files. A submission that an outage interrupts cannot remove what it tried the store with
# (VALIDATE.txt), and of a session whose first answer was cut only the server knows.
left() { /usr/bin/python3 -c "import json, urllib.request as u
names = [o['name'] for o in json.load(u.urlopen('$direct/storage/v1/b/ckpt/o'))['items']]
tried = {n.split('/')[0] for n in names if n.endswith('/VALIDATE.txt')}
print(*[n for n in names if n.split('/')[0] not in tried])"; }
restarts() { "$ebb" experiment list-trials "$1" --json | field "sum(t['restarts'] for t in x['trials'])"; }
states() { "$ebb" experiment list-checkpoints "$1" --json | field "sorted(set(c['state'] for c in x['checkpoints']) - {'DELETED'})"; }
mkdir big && sed 's/^                json.dump.*/&\n            with open(os.path.join(work.directory, "large"), "wb") as f:\n                f.write(os.urandom(int(os.environ["SIZE"])))/' \
    "$source_dir/examples/python-loop/train.py" > big/train.py
up || fail proxy
set_fault none 0

make_experiment exp.yaml '{type: gcs, bucket: ckpt, save_trial_latest: 9}' 'environment: {environment_variables: [SIZE=12000000]}'
sed -i 's/max_steps: 3/max_steps: 6/' exp.yaml
"$ebb" experiment create --paused exp.yaml big > out.txt 2>&1 || fail "create: $(cat out.txt)"
down
"$ebb" run --resume 1 --no-charts > run.txt 2>&1 &
pid=$!
sleep "${EBB_OUTAGE_SECONDS:-600}"
kill -0 $pid 2> /dev/null || fail "it has ended: $(cat run.txt)"
said=$("$ebb" master info --json | field "x['uploads']")
up || fail proxy
wait $pid || fail "run: $(cat run.txt)"
[ "$(states 1)" = "['COMPLETED']" ] && [ "$(restarts 1)" = 0 ] || fail "after the outage: $(states 1), $(restarts 1) restarts"
ok "nobody answers for ${EBB_OUTAGE_SECONDS:-600} s: no restart, everything arrived; said meanwhile: $said"

RANDOM=$seed
end=$(($(date +%s) + ${EBB_OUTAGE_SOAK:-1800})) n=0
(
    while [ "$(date +%s)" -lt $end ]; do
        case $((RANDOM % 6)) in
        0) down; sleep $((RANDOM % 40)); up ;;
        1) set_fault 503 all; sleep $((RANDOM % 20)) ;;
        2) set_fault cut-response $((RANDOM % 9 + 1)) ;;
        3) set_fault flip-request $((RANDOM % 9 + 1)) ;;
        4) set_fault stall $((RANDOM % 9 + 1)) ;;
        5) set_fault 429 $((RANDOM % 9 + 1)) ;;
        esac
        sleep $((RANDOM % 10 + 2))
        set_fault none $RANDOM
        sleep $((RANDOM % 10))
    done
    set_fault none 0
) &
weather=$!
make_experiment exp.yaml '{type: gcs, bucket: ckpt}' 'environment: {environment_variables: [SIZE=9000000]}'
sed -i 's/learning_rate: 0.5/learning_rate: {type: double, minval: 0.1, maxval: 0.6}/; s/{name: single,/{name: random, max_trials: 3,/' exp.yaml
while [ "$(date +%s)" -lt $end ]; do
    "$ebb" experiment create --paused exp.yaml big > out.txt 2>&1 || { grep -q checkpoint_storage out.txt && sleep 3 && continue; fail "create: $(cat out.txt)"; }
    id=$("$ebb" experiment list --all --json | field "max(e['id'] for e in x['experiments'])")
    timeout 1200 "$ebb" run --resume "$id" --no-charts --slots 2 > run.txt 2>&1 || fail "seed $seed, run $id: $(cat run.txt)"
    [ "$(states "$id")" = "['COMPLETED']" ] && [ "$(restarts "$id")" = 0 ] || fail "seed $seed, experiment $id: $(states "$id"), $(restarts "$id") restarts"
    n=$((n + 1))
done
wait $weather
weather=
for id in $("$ebb" experiment list --all --json | field "' '.join(str(e['id']) for e in x['experiments'])"); do
    rm -rf "$EBB_STATE"/cache/*
    one=$("$ebb" experiment list-checkpoints "$id" --json | field "[c['uuid'] for c in x['checkpoints'] if c['state'] == 'COMPLETED'][-1]")
    timeout 100 "$ebb" checkpoint download "$one" "copy" > /dev/null || fail "seed $seed: $one is not readable"
    rm -rf copy
    timeout 100 "$ebb" experiment delete "$id" --yes > out.txt 2>&1 || fail "seed $seed, delete $id: $(cat out.txt)"
done
[ -z "$(left)" ] && [ -z "$(ls "$EBB_STATE"/{staging,cache,boards} | grep -v : | grep .)" ] || fail "left: $(left)"
ok "$n experiments in ${EBB_OUTAGE_SOAK:-1800} s of outages and faults, seed $seed: no restart, nothing wrong, nothing left"
exit 0
