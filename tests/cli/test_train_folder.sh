# ebb train and its folder of checkpoints: one run each, a full disk, a start that fails.
# $1 = ebb
. "$(dirname "$0")/common.sh"

# interrupt SIGNAL COMMAND...: sends it as soon as updates are done
interrupt() {
    local signal=$1
    shift
    checks=$((checks + 1))
    rm -f beat.csv
    "$@" --csv beat.csv >out 2>err &
    local pid=$!
    for ((i = 0; i < 200; i++)); do
        grep -q ,loss, beat.csv 2>/dev/null && break
        sleep 0.05
    done
    kill "-$signal" "$pid"
    wait "$pid"
    err=$(<err)
}

trap 'umount "$work/disk" 2>/dev/null; rm -rf "$work"' EXIT
cat >gpt.yaml <<'YAML'
entrypoint: ebb:language_model
data: {name: language, vocabulary: 40, sequence_length: 16, samples: 400, val_samples: 10}
model: {name: gpt2_124M, layers: 2, width: 32, heads: 2}
hyperparameters: {global_batch_size: 4}
opt: {name: AdamW, lr: 0.001}
memory: {threads: 1}
searcher: {name: single, metric: validation_loss, max_steps: 1}
batches_per_step: 12
YAML
few=(--json --no-validation)

# ---- a file is no folder: a mistake on the command line ----
: >ck.file
for option in --checkpoint --resume; do
    expect 2 "$ebb" train gpt.yaml "${few[@]}" --updates 1 $option ck.file
    [[ $err == *"ck.file: a folder of checkpoints is wanted"* ]] || fail "$option of a file: $err"
done

# ---- a folder belongs to one run ----
expect 0 "$ebb" train gpt.yaml "${few[@]}" --updates 6 --checkpoint ck
whole=$(value weights_sha256)
expect 2 "$ebb" train gpt.yaml "${few[@]}" --updates 3 --checkpoint ck --set opt.lr=0.01
[[ $err == *"another run"*"--resume ck"* ]] || fail "the folder of another run: $err"
expect 0 "$ebb" train gpt.yaml "${few[@]}" --updates 6 --resume ck
[ "$(value weights_sha256)" = "$whole" ] || fail "the first run's checkpoint has changed"
expect 0 "$ebb" train gpt.yaml "${few[@]}" --updates 7 --resume ck --checkpoint ck
expect 2 "$ebb" train gpt.yaml "${few[@]}" --updates 3 --checkpoint ck
[ "$(ls -A ck)" = "$(printf 'update-000000000006\nupdate-000000000007')" ] || fail "the folder: $(ls -A ck)"

# Ctrl-C twice, with another rate: two folders, and both say how to go on
interrupt INT "$ebb" train gpt.yaml --updates 100000
[[ $err == *"--resume gpt.checkpoints --updates"* ]] || fail "interrupted: $err"
interrupt HUP "$ebb" train gpt.yaml --updates 100000 --set opt.lr=0.01
[[ $err == *"--resume gpt.checkpoints-2 --updates"* ]] || fail "interrupted again: $err"
[ "$(ls gpt.checkpoints | wc -l)$(ls gpt.checkpoints-2 | wc -l)" = 11 ] || fail "$(ls gpt.checkpoints*)"
first=$(ls gpt.checkpoints)
interrupt TERM "$ebb" train gpt.yaml --updates 100000 --resume gpt.checkpoints
[[ $err == *"--resume gpt.checkpoints --updates"* ]] || fail "a resumed run keeps its folder: $err"
[ "$(ls gpt.checkpoints | head -n 1)" = "$first" ] || fail "a resumed run: $(ls gpt.checkpoints)"

# other instructions make other bits: said, not done
ONEDNN_MAX_CPU_ISA=SSE41 expect 2 "$ebb" train gpt.yaml "${few[@]}" --updates 9 --resume ck
[[ $err == *"was made on a processor with"*"at most SSE41"*"--any-threads"* ]] || fail "another instruction set: $err"
ONEDNN_MAX_CPU_ISA=SSE41 expect 0 "$ebb" train gpt.yaml "${few[@]}" --updates 9 --resume ck --any-threads

# what a killed writer left goes
mkdir -p ck/.update-000000000003.part/state
expect 0 "$ebb" train gpt.yaml "${few[@]}" --updates 8 --resume ck --checkpoint ck
[ ! -e ck/.update-000000000003.part ] || fail "a torn checkpoint stays"

# ---- a start that fails leaves nothing, and nothing is begun by mistake ----
expect 2 "$ebb" train gpt.yaml --resume nowhere
[[ $err == *"nowhere"*"no such folder"* ]] && [ ! -e nowhere ] || fail "a folder that is not there: $err"
expect 1 "$ebb" train gpt.yaml --checkpoint new --csv new.csv --tensorboard /dev/null/tb
[ ! -e new ] && [ ! -e new.csv ] || fail "a failed start left $(ls -d new*)"

# ---- a full disk is waited for ----
mkdir disk
if mount -t tmpfs -o size=8m none disk 2>/dev/null; then
    head -c 8150k /dev/zero >disk/filler
    timeout -k 5 60 "$ebb" train gpt.yaml "${few[@]}" --updates 6 --checkpoint disk/ck --checkpoint-every 2 >out 2>err &
    pid=$!
    for ((i = 0; i < 200; i++)); do
        grep -q "waiting for room" err && break
        sleep 0.05
    done
    grep -q "No space left.*waiting for room" err || fail "a full disk: $(<err)"
    rm disk/filler
    wait "$pid" || fail "after a full disk: $(<err)"
    [ "$(value weights_sha256)" = "$whole" ] || fail "after a full disk: other weights: $out"
    grep -q "there is room again" err || fail "nothing said about room: $(<err)"
    checks=$((checks + 1))
else
    echo "note: a file system cannot be mounted here: no full disk"
fi

finish
