# Model state that lives below tier 0: the same weights, checkpoints and answers, whatever memory there is.
# $1 = ebb, $2 = source folder. EBB_TEST_LONG=1: every budget with all tiers; else their floor and one more each.
. "$(dirname "$0")/common.sh"

cat >gpt.yaml <<'YAML'
entrypoint: ebb:language_model
data: {name: tokens, data_dir: synthetic, sequence_length: 16, vocabulary: 211, samples: 64, val_samples: 8}
model: {name: gpt2_124M, layers: 2, width: 64, heads: 2, dropout: 0.1, vocabulary: 211, length: 16, positions: 16}
hyperparameters: {global_batch_size: 2}
opt: {name: AdamW, lr: 0.01}
memory: {threads: 1}
searcher: {name: single, metric: validation_loss, max_steps: 6}
YAML
value() { tail -n 1 out | sed -E "s/.*\"$1\": (\"([^\"]*)\"|([^,}]*)).*/\2\3/"; }

expect 0 "$ebb" train gpt.yaml --json --updates 6 --checkpoint free
kept=$(value weights_sha256) loss=$(value validation_loss) all=$(value peak_bytes) plain=$(value floor_bytes)
state=$((3 * 4 * 116000)) # weights and two moments of about 116,000 parameters

# some NUMBER BUDGET...: the NUMBER-th in turn, or all
some() {
    local number=$1
    shift
    if [ "${EBB_TEST_LONG:-}" = 1 ]; then echo "$@"; else echo "${@:number % $# + 1:1}"; fi
}

turn=0
for tiers in "--host 8MiB" "--file 8MiB" "--host 512KiB --file 8MiB"; do
    turn=$((turn + 1))
    expect 0 "$ebb" train gpt.yaml --json --updates 1 $tiers
    floor=$(value floor_bytes)
    [ "$floor" -lt $((state / 2)) ] || fail "$tiers: the floor is $floor, $plain without"
    for budget in "$floor" $(some $turn $((state / 2)) $((state * 9 / 10)) $(((plain + all) / 2))); do
        rm -rf ck
        expect 0 "$ebb" train gpt.yaml --json --updates 6 $tiers --budget "$budget" --checkpoint ck
        [ "$(value weights_sha256)" = "$kept" ] || fail "$tiers, budget $budget: $(value weights_sha256), not $kept"
        [ "$(value validation_loss)" = "$loss" ] || fail "$tiers, budget $budget: validation loss $(value validation_loss)"
        [ "$(value peak_bytes)" -le "$budget" ] || fail "$tiers: peak $(value peak_bytes) in $budget"
        diff <(cd free && find . -name '*.safetensors' -exec sha256sum {} + | sort) \
             <(cd ck && find . -name '*.safetensors' -exec sha256sum {} + | sort) >diff.txt || fail "$tiers, $budget: checkpoints differ: $(head -2 diff.txt)"
    done
    expect 1 "$ebb" train gpt.yaml --json $tiers --budget $((floor - 256))
    contains err "$floor"
    grep -qE "; op [0-9]+ \(.+\) needs them in tier 0" err || fail "$tiers: no op in $(head -1 err)"
done

# tiers that hold nearly all of the state, and no more
for tiers in "--host 1200KiB" "--host 1300KiB" "--host 1400KiB" "--host 1500KiB" "--file 1500KiB" "--host 300KiB --file 1100KiB"; do
    turn=$((turn + 1))
    expect 0 "$ebb" train gpt.yaml --json --updates 1 $tiers
    floor=$(value floor_bytes)
    for budget in $(some $turn "$floor" $((floor + 200000)) $((floor + 500000))); do
        expect 0 "$ebb" train gpt.yaml --json --updates 6 $tiers --budget "$budget"
        [ "$(value weights_sha256)" = "$kept" ] || fail "$tiers, budget $budget: $(value weights_sha256), not $kept"
    done
done

# three updates with state in the file, three more with all of it in tier 0, and the other way round
for first in "--budget $((state / 2)) --file 8MiB" ""; do
    rm -rf half
    then="--budget $((state / 2)) --host 8MiB"
    [ -n "$first" ] && then=""
    expect 0 "$ebb" train gpt.yaml --json --updates 3 --checkpoint half $first
    expect 0 "$ebb" train gpt.yaml --json --updates 6 --resume half $then
    [ "$(value weights_sha256)" = "$kept" ] || fail "resumed '$first' with '$then': $(value weights_sha256), not $kept"
done

# kept gradients live below, too; split weights come and go in two halves
for more in "optimizations.aggregation_frequency=2" "memory.precision=bf16 memory.master_weights=split" "hyperparameters.clip_grad_l2_norm=0.5"; do
    sets=()
    for one in $more; do sets+=(--set "$one"); done
    expect 0 "$ebb" train gpt.yaml --json --updates 4 "${sets[@]}"
    want=$(value weights_sha256)
    expect 0 "$ebb" train gpt.yaml --json --updates 1 "${sets[@]}" --host 8MiB
    expect 0 "$ebb" train gpt.yaml --json --updates 4 "${sets[@]}" --host 8MiB --budget "$(value floor_bytes)"
    [ "$(value weights_sha256)" = "$want" ] || fail "$more: $(value weights_sha256), not $want"
done

# states of a tensor in pieces: the same bits and the same checkpoints, whole or not
for chunk in 64 1000 4096; do
    rm -rf ck
    expect 0 "$ebb" train gpt.yaml --json --updates 6 --set memory.default_chunk_size=$chunk --host 8MiB --budget $((state / 2)) --checkpoint ck
    [ "$(value weights_sha256)" = "$kept" ] || fail "chunk $chunk: $(value weights_sha256), not $kept"
    diff <(cd free && find . -name '*.safetensors' -exec sha256sum {} + | sort) \
         <(cd ck && find . -name '*.safetensors' -exec sha256sum {} + | sort) >diff.txt || fail "chunk $chunk: checkpoints differ: $(head -2 diff.txt)"
done
for more in "memory.precision=bf16 memory.master_weights=split" "opt.amsgrad=true" "optimizations.aggregation_frequency=2"; do
    sets=()
    for one in $more; do sets+=(--set "$one"); done
    expect 0 "$ebb" train gpt.yaml --json --updates 4 "${sets[@]}"
    want=$(value weights_sha256)
    expect 0 "$ebb" train gpt.yaml --json --updates 4 "${sets[@]}" --set memory.default_chunk_size=777
    [ "$(value weights_sha256)" = "$want" ] || fail "$more in pieces: $(value weights_sha256), not $want"
done

# far: memory that the host cannot read
expect 0 "$ebb" train gpt.yaml --json --updates 6 --device far --host 8MiB --budget $((state / 2))
[ "$(value weights_sha256)" = "$kept" ] || fail "far: $(value weights_sha256), not $kept"

# a checkpoint of 48 MiB of state goes through little memory, written and read
cat >wide.yaml <<'YAML'
entrypoint: ebb:language_model
data: {name: tokens, data_dir: synthetic, sequence_length: 8, vocabulary: 16000, samples: 16, val_samples: 2}
model: {name: gpt2_124M, layers: 1, width: 256, heads: 2, vocabulary: 16000, length: 8, positions: 8}
hyperparameters: {global_batch_size: 1}
opt: {name: AdamW, lr: 0.01}
memory: {threads: 1}
searcher: {name: single, metric: validation_loss, max_steps: 2}
YAML
peak() { # of a process, in KiB
    checks=$((checks + 1))
    python3 -c '
import os, sys
pid = os.fork()
if pid == 0:
    os.dup2(os.open("peak.out", os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 1)
    os.execv(sys.argv[1], sys.argv[1:])
_, code, used = os.wait4(pid, 0)
print(used.ru_maxrss)
sys.exit(code != 0)' "$ebb" train wide.yaml --json --no-validation "$@" || fail "train $*"
}
least=$(peak --updates 2)
saved=$(peak --updates 2 --checkpoint wide)
[ "$saved" -le $((least + 8192)) ] || fail "saving takes $saved KiB, training $least"
least=$(peak --updates 3)
resumed=$(peak --updates 3 --resume wide)
[ "$resumed" -le $((least + 8192)) ] || fail "resuming takes $resumed KiB, training $least"
finish

# Networks that planners once lost their way in: an older version of a gradient was made again on the way while the newer one lay in the file.
cat >cosmoflow.yaml <<'YAML'
entrypoint: ebb:regression
data: {name: cosmoflow, data_dir: synthetic, size: 8, samples: 16, val_samples: 2}
model: {name: cosmoflow, size: 8, planes: 2, layers: 2, hidden: [8, 4]}
hyperparameters: {global_batch_size: 4, clip_grad_l2_norm: 0.5}
opt: {name: LAMB, lr: 0.01}
memory: {precision: bf16, gradients: overlay, default_chunk_size: 64, threads: 1}
searcher: {name: single, metric: validation_loss, max_steps: 1}
YAML
expect 0 "$ebb" train cosmoflow.yaml --json --updates 2
kept=$(value weights_sha256)
expect 0 "$ebb" train cosmoflow.yaml --json --updates 2 --file 441344 --budget 94976
[ "$(value weights_sha256)" = "$kept" ] || fail "cosmoflow in 94976 bytes: $(value weights_sha256), not $kept"
