#!/usr/bin/env bash
# ebb dev golden on tests/golden/more: all pass; what is cut, missing or wrong is a failed case with a reason and
# exit status 2, wrong numbers are exit status 1, and one broken file does not hide the others.
# $1 = ebb, $2 = source folder.
set -u
ebb=$1 source_dir=$2 failures=0
export OMP_NUM_THREADS=1
more=$source_dir/tests/golden/more
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT

expect() { # expect DESCRIPTION STATUS PATTERN FOLDER [OPTION...]
    local text status
    text=$("$ebb" dev golden "${@:4}" 2>&1)
    status=$?
    if [ $status -ne "$2" ] || ! [[ $text =~ $3 ]]; then
        echo "FAIL: $1: status $status instead of $2, or no match for '$3' in:"
        echo "$text" | tail -5
        failures=$((failures + 1))
    fi
}

copy() { # copy FILE...: a fresh folder with these files of the vectors, writable
    rm -rf "$work/v" && mkdir -p "$work/v/e2e"
    for f in "$@"; do
        cat "$more/$f" >"$work/v/$f"
    done
}

expect "every case" 0 '^[1-9][0-9]+ passed, 0 failed, 0 skipped$' "$more"
# Small convolutions have the same bits on every processor: unet_mini, which answers to the last one of them, says so.
for isa in AVX2 SSE41; do
    export ONEDNN_MAX_CPU_ISA=$isa
    expect "reference vectors with the library's $isa kernels" 0 '^[1-9][0-9]+ passed, 0 failed, 0 skipped$' \
        "$source_dir/tests/golden/engine"
done
unset ONEDNN_MAX_CPU_ISA
expect "reference vectors where the host cannot read" 0 '^[1-9][0-9]+ passed, 0 failed, 0 skipped$' \
    "$source_dir/tests/golden/engine" --device far
expect "an unknown device" 2 'allowed: cpu, cuda, far' "$more" --device moon
expect "no folder" 2 'cannot be read' "$work/nowhere"
mkdir "$work/empty"
expect "an empty folder" 2 'has no cases' "$work/empty"

copy ops.json lr.json
expect "tensors are missing, rates are run" 2 'FAIL ops/files: .*ops\.safetensors.*[1-9][0-9]* passed, 1 failed' "$work/v"
copy ops.json ops.safetensors
head -c 100000 "$more/ops.safetensors" >"$work/v/ops.safetensors"
expect "cut tensors" 2 'FAIL ops/files: .*ops\.safetensors' "$work/v"
copy ops.json ops.safetensors
head -c 5000 "$more/ops.json" >"$work/v/ops.json"
expect "a cut list" 2 'FAIL ops/files: .*ops\.json:1:' "$work/v"
copy ops.json ops.safetensors
sed -i 's/"op":"exp"/"op":"fft"/' "$work/v/ops.json"
expect "an unknown op" 2 "FAIL ops/exp_r0: unknown op 'fft'" "$work/v"
copy ops.json ops.safetensors
sed -i 's/"op":"linear"/"op":"matmul"/' "$work/v/ops.json"
expect "shapes that do not fit" 2 'FAIL ops/linear_r1n: matmul: inner sizes' "$work/v"
copy ops.json ops.safetensors
sed -i 's/"negative_slope":0.2/"negative_slope":0.3/' "$work/v/ops.json"
expect "other numbers" 1 'FAIL ops/leaky_relu_0.2: out0: element' "$work/v"
copy optim.json optim.safetensors
sed -i 's/"steps":7/"steps":9/' "$work/v/optim.json"
expect "steps without gradients" 2 'do not fit 9 steps' "$work/v"
copy lr.json
sed -i 's/"StepLR"/"StapLR"/' "$work/v/lr.json"
expect "an unknown schedule" 2 "schedule: found \"StapLR\", allowed: .*nearest: StepLR" "$work/v"
copy e2e/gru_more.json e2e/gru_more.safetensors e2e/llama_more.json
expect "a model without tensors" 2 'FAIL e2e/llama_more: .*1 passed, 1 failed' "$work/v"
copy e2e/gru_more.json e2e/gru_more.safetensors
sed -i 's/"steps":4/"steps":5/' "$work/v/e2e/gru_more.json"
expect "more updates than data" 2 'data/idx: no values for 5 updates' "$work/v"
copy rng.json
sed -i 's/"replicas":7/"replicas":0/' "$work/v/rng.json"
expect "no replicas" 2 'FAIL rng/sampler_3: ' "$work/v"

[ $failures -eq 0 ] || exit 1
echo "all checks passed"
