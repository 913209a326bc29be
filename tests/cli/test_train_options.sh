# PatrickStar's options in `memory` and as flags: what each does, which do not go together, what is refused and why.
# $1 = ebb, $2 = source folder. EBB_TEST_LONG=1: explain as JSON at all budgets, too.
. "$(dirname "$0")/common.sh"

cat >gpt.yaml <<'YAML'
entrypoint: ebb:language_model
data: {name: tokens, data_dir: synthetic, sequence_length: 32, vocabulary: 211, samples: 64, val_samples: 8}
model: {name: gpt2_124M, layers: 4, width: 64, heads: 2, dropout: 0.1, vocabulary: 211, length: 32, positions: 32}
hyperparameters: {global_batch_size: 4}
opt: {name: AdamW, lr: 0.01}
memory: {threads: 1}
searcher: {name: single, metric: validation_loss, max_steps: 6}
YAML

# trained OPTION...: three updates, the weights of a run without limits
trained() {
    expect 0 "$ebb" train gpt.yaml --json --updates 3 "$@"
    [ "$(value weights_sha256)" = "$kept" ] || fail "$*: $(value weights_sha256), not $kept"
}
is() { # is KEY TEST NUMBER WHERE
    checks=$((checks + 1))
    [ "$(value "$1")" "$2" "$3" ] || fail "$4: $1 is $(value "$1"), not $2 $3"
}
refused() { # refused CODE TEXT OPTION...
    expect "$1" "$ebb" train gpt.yaml --json --updates 1 "${@:3}"
    contains err "$2"
}

expect 0 "$ebb" train gpt.yaml --json --updates 3
kept=$(value weights_sha256) all=$(value peak_bytes) plain=$(value floor_bytes) state=$(value state_bytes)
budget=$((all * 3 / 4))

# use_ckp: block inputs stay, the rest is made again, without any budget; false: nothing is
trained --use_ckp
is remat_ops -gt 0 use_ckp
is peak_bytes -lt $((all * 4 / 5)) use_ckp
ckp=$(value peak_bytes) ckp_floor=$(value floor_bytes)
is swapped_bytes -eq 0 use_ckp
trained --use_ckp --budget "$ckp_floor"
is peak_bytes -le "$ckp_floor" "use_ckp at its floor"
refused 1 "since use_ckp: true keeps block inputs" --use_ckp --budget $((ckp_floor - 256))
trained --set memory.use_ckp=false --host 8MiB --budget $((state / 2))
is remat_ops -eq 0 "use_ckp: false"
is swapped_bytes -gt 0 "use_ckp: false"
trained --set memory.use_ckp=false --host 8MiB --budget "$budget" --policy dtr_eq
is remat_ops -eq 0 "use_ckp: false, dtr_eq"
trained --budget $(((plain + all) / 2))
is remat_ops -gt 0 "no option"
refused 1 "since use_ckp: false forbids to recompute" --set memory.use_ckp=false --budget "$budget"
refused 2 "memory.use_ckp: found true, which is a plan of its own" --use_ckp --budget "$budget" --policy dtr_eq
refused 2 "memory.use_ckp: found false, which this planner knows nothing of" --set memory.use_ckp=false --budget "$budget" --policy best

# with_activation_offload: the inputs of blocks wait below; false: activations never do
for tier in host file; do
    trained --use_ckp --with_activation_offload --$tier 4MiB
    is swapped_bytes -gt 0 "offload to $tier"
    is remat_ops -gt 0 "offload to $tier"
    is peak_bytes -lt "$ckp" "offload to $tier"
    is state_below_bytes -eq 0 "offload to $tier"
done
trained --use_ckp --with_activation_offload --host 8MiB --budget $((state / 2))
is peak_bytes -le $((state / 2)) "offload and state below"
refused 2 "\"only with checkpointing\", allowed with use_ckp: true" --with_activation_offload --host 4MiB
refused 2 "nowhere to go, allowed with host or file > 0" --use_ckp --with_activation_offload
refused 1 "have no room for the inputs of blocks" --use_ckp --with_activation_offload --host 40KiB
trained --set memory.with_activation_offload=false --host 8MiB --budget "$budget" --policy dtr_eq
is swapped_bytes -eq 0 "with_activation_offload: false"
trained --set memory.with_activation_offload=false --set memory.use_ckp=false --host 8MiB --budget $((all * 95 / 100))
is remat_ops -eq 0 "neither way" # only state is left to go
is state_below_bytes -gt 0 "neither way"

# mem_tracer: parts of the machine, and of the budget
trained --overall_gpu_mem_ratio 0.5 --overall_cpu_mem_ratio 0.25
half=$(value budget_bytes)
trained --overall_gpu_mem_ratio 0.25
is budget_bytes -ge $((half / 2 - 1)) "a quarter of the machine"
is budget_bytes -le $((half / 2 + 1)) "a quarter of the machine"
refused 2 "mem_tracer.overall_gpu_mem_ratio: found beside budget" --overall_gpu_mem_ratio 0.5 --budget 4MiB
refused 2 "mem_tracer.overall_cpu_mem_ratio: found beside host" --overall_cpu_mem_ratio 0.5 --host 4MiB
refused 2 "together <= 1" --overall_gpu_mem_ratio 0.8 --overall_cpu_mem_ratio 0.3
refused 2 "overall_gpu_mem_ratio: found 1.5" --overall_gpu_mem_ratio 1.5

trained --budget "$budget" --file 8MiB
is state_below_bytes -eq 0 "no ratio"
trained --budget "$budget" --file 8MiB --warmup_gpu_chunk_mem_ratio 0.25
is warmup_below_bytes -ge $((state - budget / 4)) "state in update 1"
is state_below_bytes -eq 0 "state after update 1"
# meanwhile state waits in a file without a name: in any folder, and who has none says so before update 1
TMPDIR= trained --budget "$budget" --host 8MiB --warmup_gpu_chunk_mem_ratio 0.25
TMPDIR=/no/such/folder expect 1 "$ebb" train gpt.yaml --json --updates 1 --budget "$budget" --host 8MiB --warmup_gpu_chunk_mem_ratio 0.25 --checkpoint spilled
contains err "state cannot wait in a file while it moves"
trained --budget "$budget" --host 8MiB --warmup_gpu_chunk_mem_ratio 0.25 --with_static_partition
is state_below_bytes -ge $((state - budget / 4)) "static partition"
trained --budget "$budget" --file 8MiB --warmup_gpu_chunk_mem_ratio 0 --with_static_partition
is state_below_bytes -ge $((state * 99 / 100)) "static partition: nothing near"
trained --budget $((16 * all)) --file 8MiB --margin_use_ratio 1
is state_below_bytes -eq 0 "all of the margin"
trained --budget $((16 * all)) --host 8MiB --margin_use_ratio 0
is state_below_bytes -ge $((state * 6 / 10)) "nothing of the margin" # two moments of three parts
refused 1 "mem_tracer.margin_use_ratio leaves no room for in tier 0" --budget "$budget" --host 64KiB --margin_use_ratio 0
refused 2 "is a part of the budget, allowed with a budget" --host 8MiB --margin_use_ratio 0.5
refused 2 "allowed with host or file > 0" --budget "$budget" --warmup_gpu_chunk_mem_ratio 0.5
refused 2 "allowed without policy" --budget "$budget" --host 8MiB --margin_use_ratio 0.5 --policy dtr_eq
refused 2 "with_static_partition: found true, allowed with mem_tracer.warmup_gpu_chunk_mem_ratio" --with_static_partition

# the monitor: what the process takes against what is accounted for
trained --with_async_mem_monitor --budget "$budget" --host 8MiB
is samples -gt 2 monitor
is accounted_bytes -ge "$budget" monitor # the host's part besides
is observed_bytes -gt 0 monitor
if is_sanitized; then
    echo "skipped: a sanitizer takes memory of its own, so what is beyond the accounts says nothing"
else
    is beyond_bytes -lt $((32 << 20)) monitor
fi
trained --set memory.mem_tracer.use_async_mem_monitor=true --set memory.reserve=4KiB
contains err "more than is accounted for, in update"
is accounted_bytes -ge "$all" "monitor, no budget"
trained --set memory.with_async_mem_monitor=false
[[ $out != *observed_bytes* ]] || fail "a monitor that nobody asked for: $out"
refused 2 "which says the other" --with_async_mem_monitor --set memory.mem_tracer.use_async_mem_monitor=false
refused 2 "memory.reserve: does nothing without the monitor" --set memory.reserve=1MiB

# reserve: auto: what was seen beyond is allowed from the next start on, whatever its budget; nothing else changes
reserve_auto() {
    local watched=(--with_async_mem_monitor --set memory.reserve=auto) remembered next
    export XDG_CACHE_HOME=$PWD/cache
    trained "${watched[@]}"
    is allowed_bytes -eq $((32 << 20)) "reserve: auto, nothing remembered"
    is next_allowed_bytes -eq $((32 << 20)) "reserve: auto, nothing remembered"
    remembered=$(value reserve_file | tr -d '"')
    [[ $remembered == "$PWD"/cache/ebb/reserve-cpu-* ]] || fail "reserve: auto remembers in $remembered"
    [ ! -e "$remembered" ] || fail "reserve: auto remembers that there was nothing"
    printf 'ebb-device 1\nkind cpu\nfact reserve_bytes 4096\nend\n' >"$remembered" # a machine where less was seen
    trained "${watched[@]}"
    is allowed_bytes -eq 4096 "reserve: auto, remembered"
    contains err "more than is accounted for, in update"
    contains err "memory.reserve: auto allows"
    next=$(value next_allowed_bytes)
    [ "$next" -gt "$(value beyond_bytes)" ] || fail "the next reserve is $next, seen were $(value beyond_bytes)"
    trained "${watched[@]}" --budget "$budget" --host 8MiB
    is allowed_bytes -eq "$next" "reserve: auto, the next start, in a budget"
    next=$(value next_allowed_bytes) # which another budget may have raised
    trained "${watched[@]}"
    is allowed_bytes -eq "$next" "reserve: auto, the next start"
    [[ $err != *"accounted for"* ]] || fail "a warning with the reserve that was remembered: $err"
    trained --with_async_mem_monitor
    is allowed_bytes -eq $((32 << 20)) "no reserve said"
    echo broken >"$remembered"
    refused 2 "memory.reserve: auto, remembered by an earlier start (remove the file to begin anew)" "${watched[@]}"
}
is_sanitized || reserve_auto

trained --default_chunk_size 64 --host 8MiB --budget $((state / 2))

# gradients: kept in storages of their own, or used up at once
trained --gradients fused
is peak_bytes -eq "$all" "gradients: fused"
trained --gradients separate
is state_bytes -gt $((state * 5 / 4)) "gradients: separate" # one more of three parts
trained --gradients separate --host 8MiB --budget $((state / 2))
refused 2 "gradients: found \"fused\", and hyperparameters.clip_grad_l2_norm" --gradients fused --set hyperparameters.clip_grad_l2_norm=1
refused 2 "gradients: found \"fused\", and optimizations.aggregation_frequency" --gradients fused --set optimizations.aggregation_frequency=2
refused 2 "gradients: found \"fused\", and precision: fp16" --gradients fused --set memory.precision=fp16

# overlay: over the bf16 copies of weights, so no state and, where all of them wait for a norm, no place of their own
over() { # over OPTION...: three updates with overlay, always the same weights
    expect 0 "$ebb" train gpt.yaml --json --updates 3 --set memory.precision=bf16 --gradients overlay "$@"
    [ "$(value weights_sha256)" = "$laid" ] || fail "overlay, $*: $(value weights_sha256), not $laid"
}
for norm in "" hyperparameters.clip_grad_l2_norm=0.5; do
    low=(--set memory.precision=bf16 ${norm:+--set $norm})
    expect 0 "$ebb" train gpt.yaml --json --updates 3 "${low[@]}" --gradients separate
    apart_state=$(value state_bytes) apart_peak=$(value peak_bytes) apart_floor=$(value floor_bytes)
    expect 0 "$ebb" train gpt.yaml --json --updates 3 "${low[@]}"
    open_floor=$(value floor_bytes)
    expect 0 "$ebb" train gpt.yaml --json --updates 3 "${low[@]}" --gradients overlay
    laid=$(value weights_sha256) over_peak=$(value peak_bytes) over_floor=$(value floor_bytes)
    gradients=$((state / 3)) # weights and two moments
    is state_bytes -le $((apart_state - gradients * 99 / 100)) "overlay has no state for gradients"
    is peak_bytes -le $((apart_peak - gradients * 9 / 10)) overlay
    is floor_bytes -lt $((apart_floor - gradients / 2)) overlay
    [ -z "$norm" ] || is floor_bytes -lt $((open_floor - gradients / 10)) "overlay, clipping by norm"
    over ${norm:+--set $norm} --budget "$over_floor"
    is peak_bytes -le "$over_floor" "overlay at its floor"
    over ${norm:+--set $norm} --budget $(((over_floor + over_peak) / 2)) --policy dtr_eq
    over ${norm:+--set $norm} --budget $((over_peak / 2)) --host 8MiB --default_chunk_size 64
    over ${norm:+--set $norm} --budget $((over_peak * 8 / 10)) --file 8MiB --policy unified
done
expect 0 "$ebb" train gpt.yaml --json --updates 2 "${low[@]}" --gradients overlay --checkpoint laid --host 8MiB --budget $((over_peak / 2))
over --set "$norm" --resume laid
refused 2 "gradients: found \"overlay\", which puts gradients over the bf16 copies of fp32 weights, allowed with precision: bf16" --gradients overlay
refused 2 "found \"overlay\", which puts gradients over the bf16 copies" --gradients overlay --set memory.precision=fp16
refused 2 "and \"the master is kept\"; allowed with master_weights: fp32" --gradients overlay --set memory.precision=bf16 --set memory.master_weights=split
refused 2 "\"after backward the half parameters are gone until the step\"; allowed: separate" --gradients overlay --set memory.precision=bf16 --set optimizations.aggregation_frequency=2

# what is always so, and what cannot be
trained --with_mem_cache --with_async_move
contains err "memory.with_mem_cache: always so"
contains err "memory.with_async_move: always so"
refused 2 "with_async_move: found false, allowed: true" --set memory.with_async_move=false
for option in release_after_init with_mem_saving_comm; do
    refused 1 "memory.$option: valid, but this build cannot run it yet: needs more than one rank" --$option
    trained --set memory.$option=false
done
refused 2 "memory.use_cpu_embedding: true is about tables that lookups alone read" --use_cpu_embedding --host 8MiB

# use_hybrid_adam: the host runs updates where state lives there; all of them, some, none
trained --host 8MiB --set memory.use_hybrid_adam=false
is state_below_bytes -eq "$state" "all state in host memory"
updates=$(value host_ops)
[ "$updates" -gt 0 ] || fail "the host ran nothing: $out"
trained --host 8MiB --set memory.use_hybrid_adam=false --budget $((state / 2))
is host_ops -eq "$updates" "with a budget, too"
trained --host 8MiB --use_hybrid_adam --budget $((state / 2)) --link host=0.05
is host_ops -gt 0 "a slow link"
for room in "" "--budget $all"; do # with one thread no option is needed, nor a budget that is too small
    # shellcheck disable=SC2086
    trained --host 8MiB $room
    is host_ops -gt 0 "no option, room for all $room"
done
trained --host 8MiB --policy dtr_eq --budget "$all"
is host_ops -eq 0 "another policy, room for all"
clipped=(--set hyperparameters.clip_grad_l2_norm=0.5 --rewrites +over) # which scales gradients in place
expect 0 "$ebb" train gpt.yaml --json --updates 3 "${clipped[@]}" --host 8MiB --set memory.use_hybrid_adam=false
is host_ops -eq "$updates" "all updates by the host, clipping in place"
refused 2 "is read by the device in the same step: allowed without opt.ema" --host 8MiB --set memory.use_hybrid_adam=false --set opt.ema=0.9
refused 2 "use_hybrid_adam: is about updates of state in host memory" --use_hybrid_adam
refused 2 "use_hybrid_adam: found false, which says where all state lives" --host 8MiB --set memory.use_hybrid_adam=false --policy lru
refused 2 "use_hybrid_adam: gives updates to the host, whose bits are not those of device cuda" --host 8MiB --use_hybrid_adam --device cuda
refused 1 "use_hybrid_adam: false keeps all state" --host $((state / 2)) --set memory.use_hybrid_adam=false

# with_tiling_linear: weights of linear layers in blocks of rows, so that no more than a block need be there
cat >head.yaml <<'YAML'
entrypoint: ebb:image_classification
data: {name: imagefolder, data_dir: synthetic, resize: 32, crop: 32, classes: 10, samples: 64, val_samples: 8}
model: {name: vgg16_bn, height: 32, width: 32, classes: 10, planes: 4, hidden: 256}
hyperparameters: {global_batch_size: 4}
opt: {name: AdamW, lr: 0.001}
memory: {threads: 1, default_chunk_size: 32768}
searcher: {name: single, metric: validation_loss, max_steps: 6}
YAML
tiled() { # tiled OPTION...: three updates in blocks, always the same weights
    expect 0 "$ebb" train head.yaml --json --updates 3 --with_tiling_linear "$@"
    [ "$(value weights_sha256)" = "$blocks" ] || fail "tiled, $*: $(value weights_sha256), not $blocks"
}
expect 0 "$ebb" train head.yaml --json --updates 3 --host 32MiB --checkpoint whole
whole_floor=$(value floor_bytes) whole_state=$(value state_bytes)
expect 0 "$ebb" train head.yaml --json --updates 3 --host 32MiB --with_tiling_linear --checkpoint tiled
blocks=$(value weights_sha256)
is floor_bytes -lt $((whole_floor / 2)) "tiled: 256 rows of 1568 in blocks of 16 or 32"
is state_bytes -le $((whole_state + 16384)) tiled # places are rounded
tile_floor=$(value floor_bytes) tile_peak=$(value peak_bytes)
tiled --host 32MiB --budget "$tile_floor"
is peak_bytes -le "$tile_floor" "tiled at its floor"
for budget in $((tile_peak / 2)) $((tile_peak * 7 / 10)); do
    tiled --host 32MiB --budget "$budget" # some blocks near, some below
done
tiled --file 32MiB --budget $((tile_floor * 2)) --policy unified
tiled --host 32MiB --set memory.use_hybrid_adam=false
expect 0 "$ebb" train head.yaml --json --updates 1 --with_tiling_linear --checkpoint begun
tiled --resume begun --host 32MiB --budget $((tile_peak / 2))
# outputs are not split, so a first loss is the same; files have the same tensors, and either can go on from the other's
names() { find "$1" -name "$2" -exec head -c 20000 {} + | grep -ao '"[a-z0-9_.]*": {"dtype": "F32", "shape": \[[0-9, ]*\]' | sort; }
for file in weights.safetensors optimizer.safetensors; do
    [ -n "$(names whole $file)" ] || fail "no names in $file"
    [ "$(names whole $file)" = "$(names tiled $file)" ] || fail "tiled: other tensors in $file"
done
expect 0 "$ebb" train head.yaml --json --updates 1 --set opt.lr=0
first=$(value loss)
expect 0 "$ebb" train head.yaml --json --updates 1 --set opt.lr=0 --with_tiling_linear
[ "$(value loss)" = "$first" ] || fail "tiled: a first loss of $(value loss), not $first"
expect 0 "$ebb" train head.yaml --json --updates 5 --with_tiling_linear --resume whole
expect 0 "$ebb" train head.yaml --json --updates 5 --resume tiled
# a model that updates weights itself has those whole
cat >gan.yaml <<'YAML'
entrypoint: ebb:gan
model: {name: unrolled_gan, noise: 4, hidden: 6, unroll: 3}
hyperparameters: {global_batch_size: 4}
opt: {name: Adam, lr: 0.001}
memory: {threads: 1, default_chunk_size: 8}
searcher: {name: single, metric: loss, max_steps: 2}
YAML
expect 0 "$ebb" train gan.yaml --json --updates 2 --with_tiling_linear --no-validation
blocks=$(value weights_sha256)
expect 0 "$ebb" train gan.yaml --json --updates 2 --with_tiling_linear --no-validation --budget "$(value floor_bytes)"
[ "$(value weights_sha256)" = "$blocks" ] || fail "tiled: a GAN at its floor has other weights"
refusal() { # of head.yaml
    expect 2 "$ebb" train head.yaml --updates 1 --with_tiling_linear "${@:2}"
    contains err "$1"
}
refusal "LARS and LAMB take norms of whole weights" --set opt.name=LAMB
refusal "split keeps halves of whole weights" --set memory.precision=bf16 --set memory.master_weights=split

# --res_check: five updates with and without limits
expect 0 "$ebb" train gpt.yaml --json --res_check --budget "$budget" --host 8MiB
[ "$(value unlimited_sha256)" = "$(value weights_sha256)" ] || fail "res_check: $out"
is peak_bytes -le "$budget" res_check
is unlimited_peak_bytes -eq "$all" res_check
expect 0 "$ebb" train gpt.yaml --res_check --use_ckp
# two options that change what is computed change it on both sides
expect 0 "$ebb" train gpt.yaml --res_check --set memory.precision=bf16 --gradients overlay
expect 0 "$ebb" train gpt.yaml --res_check --with_tiling_linear --set memory.default_chunk_size=2048 --host 8MiB
contains out "the same losses and weights without a limit"
refused 2 "--res_check does nothing beside --updates" --res_check
expect 1 "$ebb" train gpt.yaml --res_check --budget 100KiB

# where the host runs updates copies have the links for themselves: what is best with its help is looked for, not only what is best without
cat >help.yaml <<'YAML'
entrypoint: ebb:language_model
data: {name: tokens, data_dir: synthetic, sequence_length: 64, vocabulary: 256, samples: 256, val_samples: 4}
model: {name: gpt2_124M, layers: 2, width: 64, heads: 2, dropout: 0, vocabulary: 256, length: 64, positions: 64}
hyperparameters: {global_batch_size: 4}
opt: {name: AdamW, lr: 0.001}
searcher: {name: single, metric: validation_loss, max_steps: 1}
YAML
expect 0 "$ebb" explain help.yaml --threads 1 --costs builtin --host 64MiB --link host=1 --budget 1576448,1891584 --policy dtr_eq --json
python3 - <<'PY' || fail "more bytes take longer"
import json, sys
few, many = [x["overhead"] for x in json.load(open("out"))["budgets"] if x["policy"] == "default"]
sys.exit(many > 1.01 * few)
PY

# explain: tiers, links, copies and stalls
expect 0 "$ebb" explain gpt.yaml --host 8MiB --link host=0.5 --no-chart
contains out "host: 8.00 MiB, copies at 0.5 GB/s"
contains out "stalls"
one=(--budget "$budget") # the same once more, at a budget or (long) at all
[ "${EBB_TEST_LONG:-}" != 1 ] || one=()
expect 0 "$ebb" explain gpt.yaml --host 8MiB --link host=0.5 --json "${one[@]}"
contains out '"host_bytes": 8388608'
contains out '"stall_ms": '
expect 0 "$ebb" explain gpt.yaml --json
[[ $out != *stall_ms* ]] || fail "stalls without tiers"

# links: what the file says of them is what decisions go by
trained --host 8MiB --budget "$budget" --set memory.use_ckp=false --link host=10
fast=$(value predicted_ms)
trained --host 8MiB --budget "$budget" --set memory.use_ckp=false --link host=0.01
awk "BEGIN { exit !($(value predicted_ms) > 2 * $fast) }" || fail "a slow link: predicted $(value predicted_ms) ms, $fast with a fast one"

# the floor is no matter of speed
expect 0 "$ebb" train gpt.yaml --json --updates 0 --no-validation --save-trace step.trace
floors=
for rate in 0.1 10; do
    expect 0 "$ebb" sim step.trace --policy dtr_eq --ratio 0.9 --host 4MiB --link host=$rate --json --floor
    floors="$floors $(value floor_bytes)"
done
[ "${floors% *}" = " ${floors##* }" ] || fail "floors with two links: $floors"
finish
