# Servers that are away, for every kind ($EBB_OUTAGE_KINDS) at the same time, since it mostly waits:
#   stall    a request that nobody answers is broken after 60 s, and made again
#   outage   nobody answers for $EBB_OUTAGE_SECONDS (600)
#   soak     $EBB_OUTAGE_SOAK (1800) seconds of experiments while the server comes and goes, is slow, cuts, flips bits and refuses
# No restart is counted, everything arrives, nothing is left.
kinds=${EBB_OUTAGE_KINDS:-s3 gcs hdfs}
case $kinds in
*' '*)
    pids=() code=0
    trap 'kill "${pids[@]}"' INT TERM
    for kind in $kinds; do
        EBB_OUTAGE_KINDS=$kind bash "$0" "$@" &
        pids+=($!)
    done
    for pid in "${pids[@]}"; do wait "$pid" || code=$?; done
    exit $code
    ;;
esac
. "$2/common.sh"
need node npm swift-proxy-server memcached
need_node
need_python boto3
need_python fsspec.implementations.webhdfs
kind=$kinds seed=${EBB_OUTAGE_SEED:-$RANDOM} weather=
clean_up() {
    [ -z "$weather" ] || kill $weather 2> /dev/null
    stop_proxy
}
# Objects of checkpoints (known.txt has their names) and event files. A submission that an outage interrupts cannot remove all that
# it tried the store with, and of a session whose first answer was cut only the server of gcs knows.
left() { second "$kind" list > names.txt && /usr/bin/python3 -c "
names = [n for n in open('names.txt').read().splitlines() if n != 'upload']
known, tries = set(open('known.txt').read().split()), {'VALIDATE.txt', 'manifest.json', 'metadata.json'}
parts = lambda n: (n.split('/')[0].strip('.').replace('.tmp', ''), n.split('/', 1)[-1])
print(*[n for n in names if parts(n)[0] in known or parts(n)[1] not in tries])"; }
restarts() { "$ebb" experiment list-trials "$1" --json | field "sum(t['restarts'] for t in x['trials'])"; }
states() { "$ebb" experiment list-checkpoints "$1" --json | field "sorted(set(c['state'] for c in x['checkpoints']) - {'DELETED'})"; }
mkdir big && sed 's/^                json.dump.*/&\n            with open(os.path.join(work.directory, "large"), "wb") as f:\n                f.write(os.urandom(int(os.environ["SIZE"])))/' \
    "$source_dir/examples/python-loop/train.py" > big/train.py
serve_kind "$kind"
start_proxy
place "$kind" "$front"

# ---- a request that nobody answers
make_checkpoint here 9000000
stalled() { # VERB ARGS: the second request of it; its seconds
    local begin=$SECONDS
    set_fault stall 2
    timeout 300 "$tool" "$there" "$@" > /dev/null 2> err.txt || fail "$kind, stalled $1: $(cat err.txt)"
    took=$((SECONDS - begin))
    set_fault none 0
    [ $took -ge 59 ] && [ $took -le 120 ] || fail "$kind: $1 took $took s"
}
stalled put $uuid here j
ok "$kind: a put that nobody answers is made again after 60 s ($took s in all)"
stalled get $uuid back
same_tree here/$uuid back/$uuid
ok "$kind: so is a get ($took s)"
"$tool" "$there" remove $uuid here j > /dev/null || fail "$kind: remove"

# ---- nobody answers
make_experiment exp.yaml "$storage, save_trial_latest: 9}" 'environment: {environment_variables: [SIZE=12000000]}'
sed -i 's/max_steps: 3/max_steps: 6/' exp.yaml
for _ in 1 2 3 4 5; do # a machine with much other work takes more than the 10 s that a submission has
    "$ebb" experiment create --paused exp.yaml big > out.txt 2>&1 && break
    grep -q "within 10 s" out.txt || fail "create: $(cat out.txt)"
done
stop_proxy
"$ebb" run --resume 1 --no-charts > run.txt 2>&1 &
pid=$!
sleep "${EBB_OUTAGE_SECONDS:-600}"
kill -0 $pid 2> /dev/null || fail "it has ended: $(cat run.txt)"
said=$("$ebb" master info --json | field "x['uploads']")
case $said in "{'checkpoints': 2,"*) ;; *) fail "$kind: not two wait: $said" ;; esac
start_proxy
wait $pid || fail "run: $(cat run.txt)"
[ "$(states 1)" = "['COMPLETED']" ] && [ "$(restarts 1)" = 0 ] || fail "after the outage: $(states 1), $(restarts 1) restarts"
ok "$kind: nobody answers for ${EBB_OUTAGE_SECONDS:-600} s: no restart, everything arrived; said meanwhile: $said"

# ---- weather
RANDOM=$seed
end=$(($(date +%s) + ${EBB_OUTAGE_SOAK:-1800})) n=0
(
    while [ "$(date +%s)" -lt $end ]; do
        case $((RANDOM % 6)) in
        0) stop_proxy; sleep $((RANDOM % 40)); start_proxy ;;
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
make_experiment exp.yaml "$storage}" 'environment: {environment_variables: [SIZE=9000000]}'
sed -i 's/learning_rate: 0.5/learning_rate: {type: double, minval: 0.1, maxval: 0.6}/; s/{name: single,/{name: random, max_trials: 3,/' exp.yaml
while [ "$(date +%s)" -lt $end ]; do
    "$ebb" experiment create --paused exp.yaml big > out.txt 2>&1 || { grep -q checkpoint_storage out.txt && sleep 3 && continue; fail "create: $(cat out.txt)"; }
    id=$("$ebb" experiment list --all --json | field "max(e['id'] for e in x['experiments'])")
    timeout 1200 "$ebb" run --resume "$id" --no-charts --slots 2 > run.txt 2>&1 || fail "$kind, seed $seed, run $id: $(cat run.txt)"
    [ "$(states "$id")" = "['COMPLETED']" ] && [ "$(restarts "$id")" = 0 ] || fail "$kind, seed $seed, experiment $id: $(states "$id"), $(restarts "$id") restarts"
    n=$((n + 1))
    sleep 2
done
wait $weather
weather=
: > known.txt
for id in $("$ebb" experiment list --all --limit 10000 --json | field "' '.join(str(e['id']) for e in x['experiments'])"); do
    for one in $("$ebb" experiment list-checkpoints "$id" --json | field "' '.join(c['uuid'] for c in x['checkpoints'] if c['state'] == 'COMPLETED')"); do
        second "$kind" compare "$one" || fail "$kind, seed $seed: $one is COMPLETED and not whole"
    done
    "$ebb" experiment list-checkpoints "$id" --json | field "' '.join(c['uuid'] for c in x['checkpoints'])" >> known.txt
    timeout 100 "$ebb" experiment delete "$id" --yes > out.txt 2>&1 || fail "$kind, seed $seed, delete $id: $(cat out.txt)"
done
names=$(left) || fail "$kind: the second client cannot list"
[ -z "$names" ] && [ -z "$(ls "$EBB_STATE"/{staging,cache,boards} | grep -v : | grep .)" ] || fail "$kind: left: $names $(ls "$EBB_STATE"/{staging,cache,boards})"
ok "$kind: $n experiments in ${EBB_OUTAGE_SOAK:-1800} s of outages and faults, seed $seed: no restart, nothing wrong, nothing left"
exit 0
