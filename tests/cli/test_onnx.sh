#!/usr/bin/env bash
# ONNX files as models: shown, evaluated, trained in a budget, by entrypoint and by file, exported and read again; test models; what is
# wrong is said. $1 = ebb, $2 = source folder.
set -euo pipefail
ebb=$1
source_dir=$2
here=$(mktemp -d)
trap 'rm -rf "$here"' EXIT
cd "$here"
fail() {
    echo "FAIL: $*"
    exit 1
}
said() { # said TEXT FILE
    grep -qF -- "$1" "$2" || fail "'$1' is not in: $(cat "$2")"
}

# ---- out and in again: the same bits ----
small=(--set blocks=1,1,1 --set planes=4 --set height=16 --set width=16)
"$ebb" model init cifar_resnet20 "${small[@]}" -o w.safetensors >/dev/null
"$ebb" model export cifar_resnet20 "${small[@]}" --weights w.safetensors -o net.onnx >log
said "for any batch size" log
"$ebb" model eval cifar_resnet20 "${small[@]}" --weights w.safetensors --batch 3 -o a.npz >/dev/null
"$ebb" model eval net.onnx --batch 3 -o b.npz >/dev/null
cmp a.npz b.npz || fail "what is read again gives other bits"
"$ebb" model init net.onnx -o again.safetensors >/dev/null
"$ebb" model show net.onnx >log
said "layer1.0.conv1" log
"$ebb" model trace net.onnx --batch 2 -o net.trace >/dev/null
"$ebb" model export net.onnx -o twice.onnx >/dev/null
"$ebb" model eval twice.onnx --batch 3 -o c.npz >/dev/null
cmp a.npz c.npz || fail "written twice it gives other bits"

# ---- training, by file and by entrypoint ----
experiment() { # experiment ENTRYPOINT MODEL
    printf '%s\n' "description: onnx" "entrypoint: $1" \
        'data: {name: imagefolder, data_dir: synthetic, resize: 16, crop: 16, classes: 10, samples: 64, val_samples: 8}' ${2:+"$2"} \
        'hyperparameters: {global_batch_size: 8}' 'opt: {name: SGD, lr: 0.05, momentum: 0.9}' \
        'searcher: {name: single, metric: validation_loss, max_steps: 1}'
}
hash_of() { sed -n 's/.*"weights_sha256": *"\([0-9a-f]*\)".*/\1/p' "$1"; }
field() { sed -n "s/.*\"$2\": *\([0-9]*\).*/\1/p" "$1"; }
experiment ebb:image_classification 'model: {file: net.onnx}' >file.yaml
experiment onnx:net.onnx >entry.yaml
"$ebb" train file.yaml --updates 3 --json >file.json 2>log || fail "$(cat log)"
"$ebb" train entry.yaml --updates 3 --json >entry.json 2>log || fail "$(cat log)"
[ -n "$(hash_of file.json)" ] && [ "$(hash_of file.json)" = "$(hash_of entry.json)" ] || fail "entrypoint and file train differently"
"$ebb" train entry.yaml --updates 3 --budget "$(field file.json floor_bytes)" --json >floor.json 2>log || fail "$(cat log)"
[ "$(hash_of file.json)" = "$(hash_of floor.json)" ] || fail "other weights at the floor"
[ "$(field floor.json peak_bytes)" -le "$(field file.json floor_bytes)" ] || fail "the floor is not kept"
"$ebb" explain entry.yaml >/dev/null || fail "explain"
"$ebb" plan entry.yaml --planner best --ratio 0.8 >/dev/null || fail "plan"
"$ebb" train entry.yaml --updates 2 --checkpoint ckpt >/dev/null 2>&1 && "$ebb" train entry.yaml --updates 3 --resume ckpt --json >resumed.json 2>log ||
    fail "$(cat log)"
[ "$(hash_of file.json)" = "$(hash_of resumed.json)" ] || fail "other weights after resuming"
experiment onnx:net.onnx 'model: {trainable: linear.*, batch_norm: frozen}' >head.yaml
"$ebb" train head.yaml --updates 2 --no-validation --export-weights head.safetensors >/dev/null 2>log || fail "$(cat log)"
"$ebb" train entry.yaml --updates 0 --no-validation --export-weights first.safetensors >/dev/null 2>&1 || true

# ---- the same under a master ----
mkdir state
EBB_STATE=$here/state "$ebb" run entry.yaml >log 2>&1 || fail "ebb run: $(tail -5 log)"

# ---- what is wrong ----
wrong() { # wrong TEXT COMMAND...: exit 2 and the text
    local text=$1
    shift
    local code=0
    "$@" >log 2>&1 || code=$?
    [ "$code" = 2 ] || fail "'$*' exits $code: $(cat log)"
    said "$text" log
}
head -c 200 net.onnx >cut.onnx
wrong "bytes, but only" "$ebb" model show cut.onnx
printf 'no model' >text.onnx
wrong "text.onnx: byte" "$ebb" model show text.onnx
wrong "nearest: cross_entropy" "$ebb" model show net.onnx --set loss=cross_entropi
experiment onnx:net.onnx 'model: {name: resnet18}' >both.yaml
wrong "which names the model" "$ebb" train both.yaml
experiment onnx:gone.onnx >gone.yaml
"$ebb" train gone.yaml >log 2>&1 && fail "a file that is not there is trained"
said "gone.onnx" log

# ---- test models in the format's own form ----
"$ebb" dev onnx "$source_dir/tests/golden/onnx" >log || fail "$(cat log)"
said "0 failed" log
echo ok
