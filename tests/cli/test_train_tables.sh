# memory.use_cpu_embedding: tables live in host memory, the host looks them up and updates them; the weights are the same.
# $1 = ebb, $2 = source folder
. "$(dirname "$0")/common.sh"

model() { # model FILE PRECISION ACCUMULATE CLIP OPTIMIZER
    cat >"$1" <<YAML
entrypoint: ebb:language_model
data: {name: tokens, data_dir: synthetic, sequence_length: 12, vocabulary: 611, samples: 32, val_samples: 8}
model: {name: wlm_lstm, vocabulary: 611, length: 12, embedding: 64, hidden: 16}
hyperparameters: {global_batch_size: 4$4}
optimizations: {aggregation_frequency: $3}
opt: {name: $5, lr: 0.01}
memory: {threads: 1, precision: $2, default_chunk_size: 5000}
searcher: {name: single, metric: validation_loss, max_steps: 4}
YAML
}

table=$((611 * 64 * 4))
n=0
for case in "fp32 1 ,clip_grad_l2_norm:0.1 AdamW" "fp32 4 / AdamW" "bf16 1 / LAMB" "fp16 2 ,clip_grad_l2_norm:0.1 SGD"; do
    read -r precision accumulate clip optimizer <<<"$case"
    clip=${clip#/}
    n=$((n + 1))
    model m$n.yaml "$precision" "$accumulate" "${clip/:/: }" "$optimizer"
    expect 0 "$ebb" train m$n.yaml --json
    kept=$(value weights_sha256) all=$(value peak_bytes) floor=$(value floor_bytes) loss=$(value validation_loss)
    ways=("--threads 2" "--set memory.use_hybrid_adam=false")
    [ $n -gt 1 ] || ways+=("" "--device far" "--policy dtr_eq --budget $all" "--set memory.use_hybrid_adam=false")
    for more in "${ways[@]}"; do
        # shellcheck disable=SC2086
        expect 0 "$ebb" train m$n.yaml --json --host 8MiB --use_cpu_embedding $more
        [ "$(value weights_sha256)" = "$kept" ] || fail "$case $more: $(value weights_sha256), not $kept"
        [ "$(value validation_loss)" = "$loss" ] || fail "$case $more: validation_loss $(value validation_loss), not $loss"
        [ "$(value host_ops)" -ge 12 ] || fail "$case $more: the host ran $(value host_ops) ops"
        [ "$(value state_below_bytes)" -ge $table ] || fail "$case $more: $(value state_below_bytes) bytes live below"
        [ "$(value peak_bytes)" -le $((all - table)) ] || fail "$case $more: peak $(value peak_bytes) of $all"
        checks=$((checks + 5))
    done
    least=$(value floor_bytes)
    [ "$least" -lt $((floor - table)) ] || fail "$case: floor $least, without the option $floor"
    expect 0 "$ebb" train m$n.yaml --json --host 8MiB --use_cpu_embedding --set memory.use_hybrid_adam=false --budget "$least"
    [ "$(value weights_sha256)" = "$kept" ] || fail "$case at the floor: $(value weights_sha256), not $kept"
    [ "$(value peak_bytes)" -le "$least" ] || fail "$case at the floor: peak $(value peak_bytes) of $least"
    checks=$((checks + 3))
done

# a checkpoint of one goes on in the other
expect 0 "$ebb" train m1.yaml --json --updates 2 --host 8MiB --use_cpu_embedding --checkpoint ck --checkpoint-every 1
expect 0 "$ebb" train m1.yaml --json --resume ck
expect 0 "$ebb" train m1.yaml --json
once=$(value weights_sha256)
rm -rf ck
expect 0 "$ebb" train m1.yaml --json --updates 2 --checkpoint ck --checkpoint-every 1
expect 0 "$ebb" train m1.yaml --json --resume ck --host 8MiB --use_cpu_embedding
[ "$(value weights_sha256)" = "$once" ] || fail "resumed with tables below: $(value weights_sha256), not $once"
checks=$((checks + 1))

# what it says of memory, and what is refused
expect 0 "$ebb" explain m1.yaml --json --set memory.use_cpu_embedding=true --host 8MiB
expect 2 "$ebb" train m1.yaml --use_cpu_embedding
contains err "memory.use_cpu_embedding: found true, which puts tables into host memory, allowed with host > 0"
expect 2 "$ebb" train m1.yaml --use_cpu_embedding --host 8MiB --device cuda
contains err "whose bits are not those of device cuda"
expect 1 "$ebb" train m1.yaml --use_cpu_embedding --host 64KiB
contains err "memory.use_cpu_embedding: true needs"
contains err "host has 65536"
needs=$(sed -n 's/.* needs \([0-9]*\) bytes.*/\1/p' err) # table, two moments, the gradient, the same clipped
[ "$needs" -ge $((5 * table)) ] && [ "$needs" -lt $((6 * table)) ] || fail "$needs bytes for a table of $table"
expect 0 "$ebb" train m1.yaml --use_cpu_embedding --host "$needs" --updates 1
checks=$((checks + 1))

# a layer called as the table is, and a word more, is none of its moments
cat >named.net.yaml <<'YAML'
task: language_model
options: {vocabulary: 97, length: 8, width: 16}
inputs: {x: {shape: [length], dtype: int64}}
modules:
  e: "Parameter([vocabulary, width], init=normal(0, 1))"
  e.l: Linear(width, width)
  head: Linear(width, vocabulary, bias=False)
forward:
  - h = gelu(e.l(embedding(x, e)))
  - return head(h.reshape(-1, width))
loss: cross_entropy
YAML
sed -e 's/^model: .*/model: {file: named.net.yaml}/' -e 's/611/97/; s/sequence_length: 12/sequence_length: 8/' m1.yaml >named.yaml
expect 0 "$ebb" train named.yaml --json
kept=$(value weights_sha256)
expect 0 "$ebb" train named.yaml --json --use_cpu_embedding --host 1MiB
[ "$(value weights_sha256)" = "$kept" ] || fail "a layer named after a table: $(value weights_sha256), not $kept"
checks=$((checks + 1))
sed 's/wlm_lstm, .*}/gpt2_124M, layers: 1, width: 32, heads: 2, vocabulary: 611, length: 12, positions: 12}/' m1.yaml >tied.yaml
expect 2 "$ebb" train tied.yaml --use_cpu_embedding --host 8MiB
contains err "true is about tables that lookups alone read: transformer.wte.weight is also read by matmul, which the device runs"
expect 2 "$ebb" train "$2/examples/treelstm.yaml" --use_cpu_embedding --host 8MiB
contains err "looks nothing up"

finish
