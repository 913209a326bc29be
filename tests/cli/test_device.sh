# ebb device measure, --costs, --profile, --link, --device far: other plans, the same bits and the same
# floor.
# $1 = ebb, $2 = source folder
. "$(dirname "$0")/common.sh"

# run WANT ARGUMENT...: ebb with a time limit; its output in $out
run() {
    local want=$1
    shift
    checks=$((checks + 1))
    out=$("$ebb" "$@" 2>&1 </dev/null)
    local got=$?
    [ "$got" -eq "$want" ] || fail "exit $got instead of $want: ebb $*: $out"
}

# value KEY: of the last line
value() {
    tail -n 1 <<<"$out" | sed -E "s/.*\"$1\": (\"([^\"]*)\"|([^,}]*)).*/\2\3/"
}

cat >gpt.yaml <<'YAML'
entrypoint: ebb:language_model
data: {name: language, vocabulary: 40, sequence_length: 16, samples: 400, val_samples: 10}
model: {name: gpt2_124M, layers: 4, width: 64, heads: 2, dropout: 0.1}
hyperparameters: {global_batch_size: 8}
opt: {name: AdamW, lr: 0.001}
memory: {threads: 1}
searcher: {name: single, metric: validation_loss, max_steps: 1}
YAML
run 2 device measure gpt.yaml --device far
[[ $out == *"-o PROFILE is missing"* ]] || fail "no word of the missing option: $out"
# all that is wrong is said before anything is measured
sed 's/width: 64/width: sixty/' gpt.yaml >wrong.yaml
run 2 device measure gpt.yaml wrong.yaml no-such.yaml -o no/such/folder
for word in no/such/folder wrong.yaml: no-such.yaml; do [[ $out == *"$word"* ]] || fail "no word of $word: $out"; done
[[ $out != *"an update takes"* ]] || fail "measured before it was checked: $out"
out=$(timeout 60 "$ebb" train gpt.yaml --updates 1000000 --profile no/such/folder 2>&1 </dev/null)
[[ $? -eq 1 && $out == *"cannot write no/such/folder"* ]] || fail "trained before it was checked: $out"
run 0 device measure gpt.yaml -o this.device --threads 1
[ "$(head -n 1 this.device)" = "ebb-device 1" ] || fail "no profile"
grep -q '^row linear' this.device || fail "no row of a product"

train="train gpt.yaml --updates 4 --no-validation --json"
run 0 $train
want=$(value weights_sha256) floor=$(value floor_bytes)
budget=$(((floor + $(value peak_bytes)) / 2))
for more in "" "--costs this.device" "--host 64MiB" "--host 64MiB --costs this.device" \
    "--host 64MiB --link host=0.5" "--file 64MiB --link file=0.2" "--device far" \
    "--device far --host 64MiB" "--device far --host 1MiB --file 64MiB"; do
    run 0 $train --budget $budget $more
    [ "$(value weights_sha256)" = "$want" ] || fail "$more: other bits"
    [ "$(value peak_bytes)" -le $budget ] || fail "$more: above the budget"
done
run 0 $train --budget $floor --costs this.device
[ "$(value floor_bytes)" = "$floor" ] || fail "a profile changes the floor"
run 1 $train --budget $((floor - 256)) --costs this.device
# copies, whose times are less sure than those of ops, have to gain 3 % before a plan by measured links has them
run 0 $train --budget $budget --costs this.device
alone=$(value predicted_ms) few=0 none=0
for rate in 0.02 0.2 0.4 6; do
    sed -E "s/^(link host_(out|in)) .*/\\1 0 $rate $rate/" this.device >links.device
    run 0 $train --budget $budget --host 64MiB --costs links.device
    [ "$(value swapped_bytes)" = 0 ] && none=$((none + 1)) || few=$((few + 1))
    awk "BEGIN {exit !($(value predicted_ms) <= ($(value swapped_bytes) ? 0.9701 : 1.0001) * $alone)}" ||
        fail "host=$rate: predicted $(value predicted_ms) of $alone with $(value swapped_bytes) bytes copied"
done
[[ $few -gt 0 && $none -gt 0 ]] || fail "copies at $few of four rates"
run 0 $train --profile other.device
cmp -s <(grep -c '^row' other.device) <(grep -c '^row' this.device) || fail "train measures other ops"

# The profile of this machine: kept in the cache folder, decides where it knows the step, adds what is measured later.
run 0 explain gpt.yaml --no-chart
[[ $out == *"unknown processor."*"'ebb device measure gpt.yaml'"* ]] || fail "no word of how to measure: $out"
guessed=$out
run 0 explain gpt.yaml --json
[ "$(value costs)" = builtin ] || fail "a profile that nobody measured: $out"
explained=$(value floor_bytes)
sed 's/threads: 1/threads: 2/' gpt.yaml >two.yaml
run 2 device measure gpt.yaml two.yaml
[[ $out == *"two.yaml: memory.threads is 2, that of the files before it 1"* ]] || fail "two numbers of threads: $out"
run 0 device measure gpt.yaml
own=$(echo "$XDG_CACHE_HOME"/ebb/devices/cpu-1-*.device)
[[ -f $own && $out == *"written: $own; 'ebb explain' and 'ebb train' go by it"* ]] || fail "where this machine's profile is: $out"
run 0 explain gpt.yaml --no-chart
[[ $out == *"Times are measured for 100 % of the step"*"this machine's: $own"* ]] || fail "this machine's profile is not used: $out"
run 0 explain gpt.yaml --no-chart --costs builtin
[ "$out" = "${guessed/$'\n'$'\n'Times are those*from then on./}" ] || fail "builtin is not what is built in: $out"
run 0 explain gpt.yaml --json
[[ $(value costs) = "$own" && $(value floor_bytes) = "$explained" ]] || fail "costs or floor of explain: $out"
run 0 $train --budget $budget
[[ $(value costs) = "$own" && $(value weights_sha256) = "$want" && $(value peak_bytes) -le $budget ]] || fail "this machine's profile in training: $out"
run 0 $train --budget $floor
[ "$(value floor_bytes)" = "$floor" ] || fail "this machine's profile changes the floor"
run 0 $train --budget $budget --costs builtin
[ "$(value costs)" = builtin ] || fail "builtin is not what is built in: $out"
run 0 $train --budget $budget --threads 2
[ "$(value costs)" = builtin ] || fail "times of one thread decide for two: $out"
wide="--set hyperparameters.global_batch_size=5"
run 0 explain gpt.yaml --no-chart $wide
[[ $out == *"unknown processor: this one's profile knows"*"% of the step"* ]] || fail "times of another step decide: $out"
run 0 explain gpt.yaml --json $wide
[ "$(value costs)" = builtin ] || fail "times of another step decide: $out"
rows=$(grep -c '^row' "$own")
run 0 device measure gpt.yaml $wide
[ "$(grep -c '^row' "$own")" -gt "$rows" ] || fail "what was measured before is gone"
for more in "" "$wide"; do
    run 0 explain gpt.yaml --json $more
    [ "$(value costs)" = "$own" ] || fail "$more: not both are known: $out"
done
echo "row" >>"$own"
run 2 explain gpt.yaml
[[ $out == *"profile of this machine (remove the file to do without)"*"$own"* ]] || fail "a damaged profile: $out"
run 0 device measure gpt.yaml
[[ $out == *"what was measured before is lost"* ]] || fail "a damaged profile is added to: $out"
rm "$own"

run 1 $train --costs nothing.device
[[ $out == *nothing.device* ]] || fail "the missing profile is not named: $out"
sed 's/^kind .*/kind nvidia-h200/' this.device >other.device
run 0 $train --costs other.device
[[ $out == *"other.device was measured on nvidia-h200, not on cpu"* ]] || fail "costs of another device are taken in silence: $out"
sed -i 3d other.device && sed -i '$d' other.device
run 2 $train --costs other.device
[[ $out == *"cut short"* ]] || fail "a profile cut short: $out"
run 2 $train --link host=0
run 2 $train --host 1MiB --link host=1e-300
[[ $out == *">= 1e-4"* ]] || fail "the least rate is not named: $out"
run 2 $train --link disk=1
for more in "--link host=2" "--link file=0.5" "--link host=2,file=1"; do
    run 2 $train --device cuda --host 1MiB $more
    [[ $out == *link_bandwidth*"allowed with device: cpu or far"* ]] || fail "$more on a GPU: $out"
done
run 2 $train --device gpu
[[ $out == *"allowed: cpu"* ]] || fail "devices are not named: $out"

# A device that a plug-in brings, where there is none: where it was looked for, and how to get it.
mkdir alone && cp "$ebb" alone/ebb
out=$(env -u EBB_PLUGIN_PATH alone/ebb train gpt.yaml --device cuda --updates 1 2>&1 </dev/null)
code=$?
checks=$((checks + 1))
[ $code -eq 1 ] || fail "a missing plug-in: exit $code"
for word in ebb_cuda.so EBB_PLUGIN_PATH "ninja -C build ebb_cuda" docs/gpu.md; do
    checks=$((checks + 1))
    [[ $out == *"$word"* ]] || fail "a missing plug-in: no word of $word: $out"
done
# A kind of GPU that is not here, without its plug-in: plans, and which times are only fitted; nothing trains there.
ebb_alone() {
    checks=$((checks + 1))
    out=$(env -u EBB_PLUGIN_PATH alone/ebb "$@" 2>&1 </dev/null)
}
ebb_alone explain gpt.yaml --device nvidia-h200 || fail "explain for a kind: $out"
[[ $out == *"Times are measured for 0 % of the step and fitted for the rest:"*layer_norm_grad_add* ]] || fail "no word of fitted times: $out"
ebb_alone plan gpt.yaml --device nvidia-h200 --planner floor --ratio 0.7 || fail "plan for a kind: $out"
ebb_alone model trace gpt2_124M --set layers=1 --batch 2 --device nvidia-h200 -o h200.trace --json || fail "trace for a kind: $out"
[ "$(value baseline_bytes)" -gt 100000000 ] || fail "a trace for a kind: $out"
ebb_alone train gpt.yaml --device nvidia-h200 --updates 1
[[ $? -eq 2 && $out == *"kind of GPU to plan for"*"device: cuda"* ]] || fail "training on a kind: $out"
ebb_alone explain gpt.yaml --device nvidia-h200 --file 8MiB
[[ $? -eq 2 && $out == *"no file tier"* ]] || fail "a GPU with a file tier: $out"
ebb_alone explain gpt.yaml --device nvidia-h100
[[ $? -eq 2 && $out == *"allowed: cpu, cuda, far, nvidia-h200"* ]] || fail "an unknown kind: $out"
# Files of two devices make no profile.
sed 's/memory: {/memory: {device: far, /' gpt.yaml >far.yaml
run 2 device measure gpt.yaml far.yaml -o both.device
[[ $out == *"far.yaml: memory.device is far"*"before it cpu"* && ! -e both.device ]] || fail "files of two devices: $out"
# Tools for other machines: nobody's folder is removed, and what is asked is looked at first.
if [ -n "$source_dir" ]; then
    mkdir mine && echo precious >mine/thesis.txt
    for words in "" --bogus mine mine/thesis.txt; do
        out=$("$source_dir/tools/bundle" $words 2>&1 </dev/null)
        [[ $? -eq 2 && $out == bundle:* ]] || fail "tools/bundle $words: $out"
        checks=$((checks + 1))
    done
    [ "$(cat mine/thesis.txt)" = precious ] || fail "tools/bundle removed what was there"
    out=$(OUT=gpu "$source_dir/bench/gpu/run" mine chekc bigg 2>&1 </dev/null)
    [[ $? -eq 2 && $out == *"no ebb inside"*"'chekc'"*"'bigg'"* && ! -e gpu ]] || fail "bench/gpu/run: $out"
    checks=$((checks + 1))
fi
# Program and plug-in agree on what both look into: another layout of it is another number.
if [ -n "$source_dir" ]; then
    abi() { cmake -DSOURCE="$1" -P "$source_dir/tools/plugin_abi.cmake" 2>&1 | cut -d ' ' -f 1; }
    mkdir headers && cp -r "$source_dir/src" headers/src
    number=$(abi headers)
    [[ $number == 0x???????????????u && $number == "$(abi "$source_dir")" ]] || fail "no number of headers: $number"
    for header in device/device.h kernel/kernel.h profile/profile.h profile/inner.h base/arena.h base/status.h; do
        cp "headers/src/$header" kept.h && echo "/* changed */" >>"headers/src/$header"
        [ "$(abi headers)" != "$number" ] || fail "plug-ins built with another $header would be taken"
        mv kept.h "headers/src/$header"
        checks=$((checks + 1))
    done
fi
# A plug-in that was not copied to its end.
for size in 100 5000 100000; do
    head -c $size "$ebb" >alone/ebb_cuda.so
    out=$(env -u EBB_PLUGIN_PATH alone/ebb train gpt.yaml --device cuda --updates 1 2>&1 </dev/null)
    code=$?
    checks=$((checks + 1))
    [[ $code -eq 1 && $out == *"alone/ebb_cuda.so: the file is cut short"* ]] || fail "a plug-in of $size bytes: exit $code: $out"
done
finish
