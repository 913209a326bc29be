# What the program says with its plug-in beside it: without a driver or a GPU it says so, and what needs none works.
# $1 = ebb, $2 = source folder
. "$2/tests/cli/common.sh"

cat >gpt.yaml <<'YAML'
entrypoint: ebb:language_model
data: {name: language, vocabulary: 40, sequence_length: 16, samples: 40, val_samples: 10}
model: {name: gpt2_124M, layers: 2, width: 64, heads: 2, dropout: 0}
hyperparameters: {global_batch_size: 4}
opt: {name: AdamW, lr: 0.001}
searcher: {name: single, metric: validation_loss, max_steps: 1}
YAML
unset EBB_PLUGIN_PATH
[ -f "$(dirname "$ebb")/ebb_cuda.so" ] || fail "no plug-in beside $ebb"
if nvidia-smi -L 2>/dev/null | grep -q GPU; then
    expect 0 "$ebb" train gpt.yaml --device cuda --updates 2 --no-validation --json
else
    expect 1 "$ebb" train gpt.yaml --device cuda --updates 2
    contains err "no GPU:"
    expect 1 "$ebb" device measure gpt.yaml --device cuda -o measured.device
    contains err "no GPU:"
    expect 1 "$ebb" dev golden "$source_dir/tests/golden/engine" --device cuda
    contains err "no GPU:"
fi
expect 0 "$ebb" explain gpt.yaml --device cuda --json # the profile inside the plug-in
contains out '"predicted_ms"'
contains out '"fitted": [{"kind": "'
expect 0 "$ebb" explain gpt.yaml --device cuda
contains out "Times are measured for 0 % of the step and fitted for the rest: "
expect 0 "$ebb" plan gpt.yaml --device cuda --planner floor --ratio 1
expect 0 "$ebb" model trace gpt2_124M --set layers=1 --device cuda -o gpu.trace --json
gpu=$(value base_ns)
expect 0 "$ebb" model trace gpt2_124M --set layers=1 -o cpu.trace --json
[ "$gpu" -lt "$(value base_ns)" ] || fail "a GPU is no faster: $gpu"
expect 2 "$ebb" plan cpu.trace --device cuda --ratio 0.8
contains err "--device and --costs are for experiment files"
expect 2 "$ebb" model trace gpt2_124M --threads 0 --device cuda -o none.trace
contains err "--device needs kernels"
finish
