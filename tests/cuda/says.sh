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
finish
