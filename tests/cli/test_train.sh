# ebb train and ebb explain: broken sections, one result at every budget, checkpoints that survive
# kill -9, torn and changed checkpoints, refusal, files written.
# $1 = ebb, $2 = source folder. EBB_TEST_LONG=1: fifty kills instead of three.
. "$(dirname "$0")/common.sh"

# ---- broken sections: the whole output ----
cp "$source_dir"/tests/golden/train/* .
count=0
for text in *.txt; do
    name=${text%.txt}
    expect 2 "$ebb" experiment validate "$name.yaml"
    tail -n +2 "$text" | cmp -s - out || fail "output of $name.yaml"
    expect 2 "$ebb" train "$name.yaml"
    expect 2 "$ebb" explain "$name.yaml"
    count=$((count + 1))
done
[ "$count" -ge 5 ] || fail "only $count broken files"
checks=$((checks + 1))

# ---- a small model ----
cat >gpt.yaml <<'YAML'
entrypoint: ebb:language_model
data: {name: language, vocabulary: 40, sequence_length: 16, samples: 400, val_samples: 10}
model: {name: gpt2_124M, layers: 2, width: 32, heads: 2, dropout: 0.1}
hyperparameters:
  global_batch_size: 4
  rate: {type: log, base: 10, minval: -3, maxval: -2}
opt: {name: AdamW, lr: "${rate}"}
lr_schedule: {name: GPTCosine, warmup: 5, total: 40}
memory: {threads: 1}
searcher: {name: single, metric: validation_loss, max_steps: 1}
batches_per_step: 12
YAML
expect 0 "$ebb" experiment validate gpt.yaml # the rate is opt.lr
sed -i 's/, warmup: 5, total: 40//; s/GPTCosine/StepLR, step_size: 5/' gpt.yaml
expect 0 "$ebb" experiment validate gpt.yaml
sed 's/gpt2_124M/gpt2_125M/' gpt.yaml >typo.yaml
expect 2 "$ebb" train typo.yaml
[[ $err == *"typo.yaml:3:15: model.name: "*"gpt2_124M"* ]] || fail "no nearest model: $err"
sed 's/threads: 1/policy: dtr-eq/' gpt.yaml >typo.yaml
expect 2 "$ebb" train typo.yaml
[[ $err == *"nearest: dtr_eq"* ]] || fail "no nearest policy: $err"

expect 0 "$ebb" train gpt.yaml --json
for key in status updates loss metrics budget_bytes floor_bytes peak_bytes update_ms evictions \
    remat_ops swapped_bytes threads weights_sha256; do
    [[ $out == *"\"$key\": "* ]] || fail "the last line has no $key"
done
[ "$(value status)" = ok ] && [ "$(value updates)" = 12 ] || fail "not trained: $out"
[[ $out == *'"validation_loss": '*'"validation_perplexity": '* ]] || fail "metrics: $out"
free_hash=$(value weights_sha256)
peak=$(value peak_bytes)
floor=$(value floor_bytes)

# ---- budgets ----
for budget in $(((peak + floor) / 2)) "$floor"; do
    for policy in dtr_eq lru floor; do
        expect 0 "$ebb" train gpt.yaml --json --budget "$budget" --policy "$policy"
        [ "$(value weights_sha256)" = "$free_hash" ] || fail "$policy at $budget: other weights"
        [ "$(value peak_bytes)" -le "$budget" ] || fail "$policy at $budget: $(value peak_bytes)"
    done
done
for tier in --host --file; do
    expect 0 "$ebb" train gpt.yaml --json --budget $(((peak + floor) / 2)) $tier 4MiB
    [ "$(value weights_sha256)" = "$free_hash" ] || fail "swapping with $tier: other weights"
done
expect 1 "$ebb" train gpt.yaml --json --budget $((floor - 256))
[ "$(value status)" = refused ] && [ "$(value floor_bytes)" = "$floor" ] || fail "refusal: $out"
[[ $err == *"$floor"* ]] || fail "the refusal does not name the floor: $err"

# a budget of more than the machine has; an empty one is a mistake, not the lack of a limit
expect 0 "$ebb" train gpt.yaml --json --budget 100TiB
[ "$(value weights_sha256)" = "$free_hash" ] || fail "100 TiB: other weights"
expect 2 "$ebb" train gpt.yaml --budget ""
expect 1 "$ebb" train gpt.yaml --json --budget 1
[[ $err == *"budget of 1 bytes"* ]] || fail "the budget that was refused: $err"
expect 1 "$ebb" train gpt.yaml --file 1MiB --file-path /nonexistent --budget "$floor"
[[ $err == *"/nonexistent"* ]] || fail "a tier that cannot be: $err"
expect 0 "$ebb" train gpt.yaml --json --host 4KiB
[ "$(value floor_bytes)" -le "$floor" ] || fail "a host tier raises the floor: $(value floor_bytes)"

# more than the machine has: refused before it is taken
limited=(bash -c 'ulimit -v 8000000; exec "$@"' -) # in case it is not; sanitizers need more
"${limited[@]}" "$ebb" --help >/dev/null 2>&1 || limited=()
expect 1 ${limited[@]+"${limited[@]}"} "$ebb" train gpt.yaml --no-validation \
    --set model.name=GPT_454B --set model.head=tokens --set model.layers=90 \
    --set model.width=20480 --set model.heads=128
[[ $err == *"the machine has"* ]] || fail "more than the machine has: $err"

# swapped bytes need addresses, too: the floor with little host memory can be run
cat >host.yaml <<'YAML'
entrypoint: ebb:language_model
data: {name: tokens, data_dir: synthetic, sequence_length: 8, vocabulary: 61, samples: 64, val_samples: 8}
model: {name: GPT_220B, positions: 16, length: 8, width: 16, layers: 2, heads: 2, head: tokens}
hyperparameters: {global_batch_size: 6}
opt: {name: SGD, lr: 0.001}
memory: {precision: bf16, master_weights: split, host: 16KiB, threads: 1}
searcher: {name: single, metric: validation_loss, max_steps: 1}
YAML
for batch in 2 6 7; do
    few=(train host.yaml --json --updates 1 --set hyperparameters.global_batch_size=$batch)
    expect 0 "$ebb" "${few[@]}"
    kept=$(value weights_sha256)
    expect 0 "$ebb" "${few[@]}" --budget "$(value floor_bytes)"
    [ "$(value weights_sha256)" = "$kept" ] || fail "little host memory, batch $batch: $out"
done

# a planner that finds no addresses gives way to the floor's plan
cat >packed.yaml <<'YAML'
entrypoint: ebb:regression
model: {name: transformer_12_6, length: 6, target_length: 4, width: 8, hidden: 16, heads: 2, encoder_layers: 2, decoder_layers: 2}
hyperparameters: {global_batch_size: 3, clip_grad_l2_norm: 1}
opt: {name: NAdam, lr: 0.01, weight_decay: 0.01, decay: matrices}
memory: {precision: bf16, threads: 1}
optimizations: {aggregation_frequency: 3}
searcher: {name: single, metric: validation_loss, max_steps: 1}
YAML
expect 0 "$ebb" train packed.yaml --json --updates 1
kept=$(value weights_sha256)
[[ $out != *validation_accuracy* ]] || fail "an accuracy of nothing: $out"
expect 0 "$ebb" train packed.yaml --json --updates 1 --budget "$(value floor_bytes)" --policy best
[ "$(value weights_sha256)" = "$kept" ] || fail "best at the floor: $out"

# the floor is that of the largest program: applying kept gradients may need more than a batch does
clipped="hyperparameters.clip_grad_l2_norm=1 --set optimizations.aggregation_frequency=2
    --set hyperparameters.global_batch_size=1 --set opt.name=LAMB"
expect 0 "$ebb" train gpt.yaml --json --updates 1 --set $clipped
whole=$(value floor_bytes)
clipped_hash=$(value weights_sha256)
expect 1 "$ebb" train gpt.yaml --json --set $clipped --budget 4KiB
[ "$(value floor_bytes)" = "$whole" ] || fail "a refusal names $(value floor_bytes), the floor is $whole"
[[ $err == *"$whole"* ]] || fail "a refusal does not name the floor: $err"
expect 0 "$ebb" train gpt.yaml --json --updates 1 --set $clipped --budget "$whole"
[ "$(value weights_sha256)" = "$clipped_hash" ] || fail "clipped: other weights at the floor"
expect 0 "$ebb" explain gpt.yaml --json --set $clipped
[ "$(value floor_bytes)" = "$whole" ] || fail "explain: floor $(value floor_bytes), not $whole"

# ---- accumulation: the kept gradients, and a checkpoint in the middle of one ----
expect 0 "$ebb" train gpt.yaml --json --updates 6 --set optimizations.aggregation_frequency=2
[ "$(value updates)" = 6 ] || fail "accumulation: $out"
accumulated=$(value weights_sha256)
least=$(value floor_bytes)
expect 0 "$ebb" train gpt.yaml --json --updates 6 --set optimizations.aggregation_frequency=2 \
    --budget "$least"
[ "$(value weights_sha256)" = "$accumulated" ] || fail "accumulation under a budget"

# ---- bf16 with split weights: one result at the floor and after a resume; fp32 ones can go on ----
split="memory.precision=bf16 --set memory.master_weights=split"
expect 0 "$ebb" train gpt.yaml --json --updates 6 --set memory.precision=bf16
whole_peak=$(value peak_bytes)
expect 0 "$ebb" train gpt.yaml --json --updates 6 --set $split --checkpoint halves --checkpoint-every 4
halves=$(value weights_sha256)
[ "$(value peak_bytes)" -lt "$whole_peak" ] || fail "split weights take no less: $(value peak_bytes)"
expect 0 "$ebb" train gpt.yaml --json --updates 6 --set $split --budget "$(value floor_bytes)"
[ "$(value weights_sha256)" = "$halves" ] || fail "split weights under a budget"
rm -rf halves/"$(ls halves | tail -n 1)"
expect 0 "$ebb" train gpt.yaml --json --updates 6 --set $split --resume halves
[ "$(value weights_sha256)" = "$halves" ] || fail "split weights after a resume"
expect 0 "$ebb" train gpt.yaml --updates 3 --set memory.precision=bf16 --checkpoint fulls
expect 0 "$ebb" train gpt.yaml --json --updates 6 --set $split --resume fulls
[ "$(value updates)" = 6 ] || fail "split weights do not go on from fp32 ones: $out"
# policies that copy need somewhere to copy to
expect 0 "$ebb" train gpt.yaml --json --updates 3
same=$(value weights_sha256) half=$((($(value floor_bytes) + $(value peak_bytes)) / 2))
for policy in belady capuchin; do
    expect 2 "$ebb" train gpt.yaml --set memory.policy=$policy --set memory.budget=$half
    [[ $err == *"$policy copies to lower tiers: give memory.host or memory.file"* ]] || fail "$policy without a tier: $err"
    for tier in --host --file; do
        expect 0 "$ebb" train gpt.yaml --json --updates 3 --set memory.policy=$policy --budget $half $tier 64MiB
        [ "$(value weights_sha256)" = "$same" ] || fail "$policy with $tier: $out"
        [ "$policy" = capuchin ] || [ "$(value remat_ops)" = 0 ] || fail "belady makes something again: $out"
        [ "$(value swapped_bytes)" -gt 0 ] || fail "$policy copies nothing: $out"
    done
done
expect 2 "$ebb" train gpt.yaml --set memory.master_weights=split
[[ $err == *"precision: bf16"* ]] || fail "split weights in fp32: $err"

# ---- rewrites: named in the file and by a flag; one result at every budget ----
for precision in fp32 bf16; do
    for names in +entropy +relu +over -norm,-small,+entropy,+relu,+over; do
        few=(train gpt.yaml --json --updates 3 --set memory.precision=$precision --rewrites "$names")
        expect 0 "$ebb" "${few[@]}"
        kept=$(value weights_sha256)
        peak=$(value peak_bytes)
        least=$(value floor_bytes)
        for budget in $(((peak + least) / 2)) "$least"; do
            expect 0 "$ebb" "${few[@]}" --budget "$budget"
            [ "$(value weights_sha256)" = "$kept" ] || fail "$precision $names at $budget: other weights"
        done
    done
done
few=(train gpt.yaml --json --updates 1 --set memory.precision=bf16 --set hyperparameters.global_batch_size=32
    --set data.vocabulary=1000)
expect 0 "$ebb" "${few[@]}"
plain=$(value peak_bytes)
expect 0 "$ebb" "${few[@]}" --set memory.rewrites=+entropy
[ "$(value peak_bytes)" -lt "$plain" ] || fail "blocked entropy in bf16 takes no less: $(value peak_bytes), $plain"
expect 2 "$ebb" train gpt.yaml --rewrites nrom
[[ $err == *"memory.rewrites: found \"nrom\", allowed: none, layout, norm,"* ]] || fail "rewrites: $err"

# ---- checkpoints ----
expect 0 "$ebb" train gpt.yaml --json --updates 5 --checkpoint ck --checkpoint-every 2
[ "$(find ck -mindepth 1 -maxdepth 1 -name 'update-*' | wc -l)" -eq 2 ] || fail "not two checkpoints: $(ls -A ck)"
expect 0 "$ebb" train gpt.yaml --json --resume ck
[ "$(value weights_sha256)" = "$free_hash" ] || fail "resumed: other weights"
expect 2 "$ebb" train gpt.yaml --resume ck --threads 2
[[ $err == *"1 threads"*"has 2"* ]] || fail "threads of a resume: $err"
sed 's/layers: 2/layers: 3/' gpt.yaml >other.yaml
expect 2 "$ebb" train other.yaml --resume ck
cat >gan.yaml <<'YAML'
entrypoint: ebb:gan
model: {name: unrolled_gan, hidden: 8, noise: 4, unroll: 2}
hyperparameters: {global_batch_size: 4}
opt: {name: Adam}
searcher: {name: single, metric: validation_loss, max_steps: 1}
YAML
expect 0 "$ebb" train gan.yaml --updates 2 --checkpoint gan --no-validation
expect 2 "$ebb" train gan.yaml --updates 4 --resume gan --no-validation --seed 7
[[ $err == *"seed 0"*"has 7"* ]] || fail "seed of a resume: $err"
expect 2 "$ebb" train gan.yaml --updates 4 --resume gan --set hyperparameters.global_batch_size=5
[[ $err == *"global_batch_size 4"*"has 5"* ]] || fail "batch of a resume: $err"

# a changed byte, a torn file, a missing manifest: the checkpoint before is used
for damage in flip tear drop; do
    rm -rf bad
    expect 0 "$ebb" train gpt.yaml --updates 5 --checkpoint bad --checkpoint-every 2
    newest=bad/$(ls bad | tail -n 1)
    case $damage in
    flip) printf '\377' | dd of="$newest/state/weights.safetensors" bs=1 seek=5000 conv=notrunc status=none ;;
    tear) truncate -s 3000 "$newest/state/optimizer.safetensors" ;;
    drop) rm "$newest/manifest.json" ;;
    esac
    expect 0 "$ebb" train gpt.yaml --json --resume bad
    [[ $err == *"using the one before"* ]] || fail "$damage: not noticed: $err"
    [ "$(value weights_sha256)" = "$free_hash" ] || fail "$damage: other weights"
done

# a counter that is none, with a manifest that agrees
rm -rf bad
expect 0 "$ebb" train gpt.yaml --updates 5 --checkpoint bad --checkpoint-every 2
newest=bad/$(ls bad | tail -n 1)
old=$(sha256sum <"$newest/state/train.json" | cut -d ' ' -f 1)
sed -i 's/"updates": 5/"updates": -5/' "$newest/state/train.json"
sed -i "s/$old/$(sha256sum <"$newest/state/train.json" | cut -d ' ' -f 1)/; s/^  \"xxh128/  \"older/" "$newest/manifest.json"
bytes=$(wc -c <"$newest/state/train.json")
sed -i "s/\"bytes\": $((bytes - 1))/\"bytes\": $bytes/" "$newest/manifest.json"
expect 0 "$ebb" train gpt.yaml --json --resume bad
[[ $err == *"updates is no counter"* ]] || fail "a negative counter: $err"
[ "$(value weights_sha256)" = "$free_hash" ] || fail "after a negative counter: other weights"

# data that cannot be read: what was done until then is kept, and goes on when the file is mended
expect 0 "$ebb" data make '{name: imagefolder, data_dir: synthetic, classes: 2}' pictures --train 12 --val 2
cat >pictures.yaml <<'YAML'
entrypoint: ebb:image_classification
data: {name: imagefolder, data_dir: pictures, resize: 16, crop: 16}
model: {name: cifar_resnet20, blocks: [1, 1, 1], planes: 4}
hyperparameters: {global_batch_size: 2}
opt: {name: SGD, lr: 0.01}
memory: {threads: 1}
searcher: {name: single, metric: validation_loss, max_steps: 1}
YAML
expect 0 "$ebb" train pictures.yaml --json --updates 8
kept=$(value weights_sha256)
picture=$(find pictures/train -name '*.jpg' | sort | tail -n 1)
mv "$picture" safe.jpg
: >"$picture"
expect 2 "$ebb" train pictures.yaml --updates 8 --checkpoint cut
[[ $err == *"a checkpoint of all"* ]] || fail "nothing is kept when data fails: $err"
mv safe.jpg "$picture"
expect 0 "$ebb" train pictures.yaml --json --updates 8 --resume cut
[ "$(value weights_sha256)" = "$kept" ] || fail "after mended data: other weights"

# Ctrl-C: a checkpoint, and how to go on
"$ebb" train gpt.yaml --updates 100000 --checkpoint stop --checkpoint-every 100000 >out 2>err &
pid=$!
sleep 1.5
kill -TERM "$pid"
wait "$pid"
checks=$((checks + 1))
grep -q -- "ebb train gpt.yaml --resume stop --checkpoint stop --updates 100000$" err || fail "no way to go on: $(<err)"
[ "$(ls stop | wc -l)" -eq 1 ] || fail "no checkpoint after SIGTERM"

cp gpt.yaml "a file.yaml"
"$ebb" train "a file.yaml" --updates 100000 --seed 3 >out 2>err &
pid=$!
sleep 1
kill -INT "$pid"
wait "$pid"
checks=$((checks + 1))
grep -q -- "'a file.yaml' --resume 'a file.checkpoints' --updates 100000 (and" err || fail "quoting: $(<err)"

# trials too short for one update, or longer than numbers are
expect 2 "$ebb" train gpt.yaml --set optimizations.aggregation_frequency=13
[[ $err == *"do not make one update of 13"* ]] || fail "a trial without an update: $err"
timeout -s INT 4 "$ebb" train gpt.yaml --json --set searcher.max_steps=9000000000000000000 >out 2>err
checks=$((checks + 1))
[ "$(value status)" = interrupted ] && [ "$(value updates)" -gt 0 ] || fail "a very long trial: $out"

# one training at a time in a folder
"$ebb" train gpt.yaml --updates 100000 --checkpoint one --checkpoint-every 100000 >out 2>err &
pid=$!
sleep 1
expect 2 "$ebb" train gpt.yaml --checkpoint one
[[ $err == *"another training"* ]] || fail "two trainings in a folder: $err"
kill -9 "$pid"
wait "$pid" 2>/dev/null

# kill -9 at any moment, then resume: the undisturbed result
kills=3
[ "${EBB_TEST_LONG:-}" = 1 ] && kills=50
expect 0 "$ebb" train gpt.yaml --json --updates 300 --no-validation
undisturbed=$(value weights_sha256)
RANDOM=11
done_kills=0
for ((i = 0; i < kills; i++)); do
    rm -rf kill
    mkdir kill # it may be killed before it makes one
    "$ebb" train gpt.yaml --json --updates 300 --no-validation --checkpoint kill \
        --checkpoint-every 3 >/dev/null 2>&1 &
    pid=$!
    sleep "0.$((RANDOM % 900 + 50))"
    kill -9 "$pid" 2>/dev/null && done_kills=$((done_kills + 1))
    wait "$pid" 2>/dev/null
    expect 0 "$ebb" train gpt.yaml --json --updates 300 --no-validation --resume kill
    [ "$(value weights_sha256)" = "$undisturbed" ] || fail "kill $i: other weights"
done
[ "$done_kills" -gt 0 ] || fail "nothing was killed"

# ---- files ----
expect 0 "$ebb" train gpt.yaml --updates 2 --csv m.csv --tensorboard tb --save-trace s.trace \
    --export-weights w.safetensors
head -n 1 m.csv | grep -qx "update,name,value" || fail "no heading in the CSV file"
grep -q "^2,validation_loss," m.csv || fail "no validation in the CSV file"
ls tb/events.out.tfevents.* >/dev/null || fail "no event file"
expect 0 "$ebb" sim s.trace --policy dtr_eq --ratio 0.9
expect 0 "$ebb" train gpt.yaml --updates 2 --init-weights w.safetensors
expect 0 "$ebb" train gpt.yaml --updates 1 --save-trace s.log
expect 0 "$ebb" sim gpt.yaml --policy dtr_eq --ratio 0.9
expect 2 "$ebb" train gpt.yaml --set opt.lr
expect 2 "$ebb" train gpt.yaml --seed -1
expect 2 "$ebb" train gpt.yaml --updates -1
expect 0 "$ebb" train gpt.yaml --json --updates 0
[ "$(value updates)" = 0 ] || fail "no updates: $out"
expect 1 "$ebb" train gpt.yaml --export-weights nowhere/w.safetensors --csv never.csv
[ ! -e never.csv ] || fail "trained before it was clear that the weights cannot be written"
expect 1 "$ebb" train gpt.yaml --set optimizations.mixed_precision=O1
[[ $err == *"optimizations.mixed_precision"* ]] || fail "mixed precision: $err"
expect 2 "$ebb" train gpt.yaml --csv never.csv \
    --set lr_schedule='{name: OneCycleLR, max_lr: 0.1, total_steps: 4}'
[[ $err == *"total_steps is 4"* ]] && [ ! -e never.csv ] || fail "a schedule that is too short: $err"
expect 0 "$ebb" train gpt.yaml --updates 2 --set opt.lr=1e30
[[ $err == *"warning: the loss of update 2"* ]] || fail "no word about a loss that is no number: $err"

# a resumed run goes on in the CSV file: no update twice, none lost
expect 0 "$ebb" train gpt.yaml --updates 9 --csv whole.csv --no-validation
expect 0 "$ebb" train gpt.yaml --updates 5 --csv parts.csv --no-validation --checkpoint again
printf '6,loss,1\n7,lo' >>parts.csv
expect 0 "$ebb" train gpt.yaml --updates 9 --csv parts.csv --no-validation --resume again
cmp -s <(grep -v update_ms whole.csv) <(grep -v update_ms parts.csv) || fail "CSV after a resume: $(<parts.csv)"
expect 2 "$ebb" train gpt.yaml --device tpu
expect 1 "$ebb" train nothing.yaml

# a loss that the model cannot use is no loss that is ignored
expect 2 "$ebb" train gan.yaml --set 'loss={name: mse_loss}'
[[ $err == *"a loss of its own"* ]] || fail "the loss of a GAN: $err"
expect 2 "$ebb" train gpt.yaml --set 'loss={name: mse_loss}'
[[ $err == *"'mse_loss', a loss for numbers"* ]] || fail "a loss for numbers: $err"
expect 1 "$ebb" train gpt.yaml --updates 1 --no-validation --export-weights /dev/full
[[ $err == *"No space left"* ]] || fail "a full disk: $err"

# ---- explain ----
expect 0 "$ebb" explain gpt.yaml
[[ $out == *"What would help most:"* && $out == *"activations"* ]] || fail "explain: $out"
expect 0 "$ebb" explain gpt.yaml --json
[ "$(value floor_bytes)" = "$floor" ] || fail "explain names another floor: $(value floor_bytes)"
expect 0 "$ebb" explain gpt.yaml --json --quick
[ "$(value floor_bytes)" = "$floor" ] && [[ $out == *'"budgets": []'* && $out != *managed* ]] || fail "explain --quick: $out"
expect 0 "$ebb" explain gpt.yaml --json --quick --budget "$floor"
[[ $out == *'"budgets": []'* && $out == *'"managed": {'* ]] || fail "explain --quick --budget: $out"
expect 0 "$ebb" explain gpt.yaml --json --seconds 0.000001
[[ $out == *'"budgets": []'* ]] || fail "explain without time predicts: $out"
# a prediction of seconds is left where it stands
cat >tree.yaml <<'YAML'
entrypoint: ebb:regression
model: {name: dtr_treelstm, features: 32, memory: 48, depth: 2}
hyperparameters: {global_batch_size: 8}
opt: {name: SGD, lr: 0.01, momentum: 0.9}
searcher: {name: single, metric: validation_loss, max_steps: 1}
YAML
expect 0 "$ebb" explain tree.yaml --json --quick
tree=$(value floor_bytes)
TIMEFORMAT=%U
used=$({ time "$ebb" explain tree.yaml --json --seconds 0.5 --policy lru >out 2>err; } 2>&1)
[ "$(value left_out)" -gt 0 ] || fail "explain in half a second leaves nothing out: $(<out)"
[ "$(value floor_bytes)" = "$tree" ] || fail "explain in half a second: $(<out) $(<err)"
[ "${used%.*}" -lt 2 ] || fail "half a second takes $used s of processor"
expect 0 "$ebb" explain gpt.yaml --quick --no-chart
[[ $out != *"Predicted time"* && $out == *"What would help most:"* ]] || fail "explain --quick: $out"
expect 2 "$ebb" explain gpt.yaml --quick --policy lru
expect 0 "$ebb" explain gpt.yaml --json --set 'data={name: text, train_files: [gone.txt]}'
[[ $err == *"note: "*"gone.txt"* ]] || fail "explain without the data: $err"
# of a trace file: what it says of the experiment behind it
expect 0 "$ebb" explain gpt.yaml --json --policy lru --budget $((floor + floor / 2)),$floor
cp out own.json
expect 0 "$ebb" trace convert gpt.yaml -o gpt.trace
expect 0 "$ebb" explain gpt.trace --json --policy lru --budget $((floor + floor / 2)),$floor
cp out traced.json
python3 - <<'PY' || fail "explain of a trace differs from that of its experiment"
import json
a, b = json.load(open("own.json")), json.load(open("traced.json"))
for key in "ops", "peak_bytes", "peak", "timeline", "layers", "budgets", "managed":
    assert a[key] == b[key], key
assert "parameters" in a and "parameters" not in b and b["trace"]
PY
expect 0 "$ebb" explain gpt.trace --no-chart
[[ $out == *"trace "*" of compute"* && $out == *"What would help most:"* && $out == *"optimizer"* ]] || fail "explain of a trace: $out"
expect 0 "$ebb" explain gpt.trace --budget $((2 * floor)) --host 8MiB --link host=2 -o traced.svg
[[ $out == *"copied"* && -s traced.svg ]] || fail "explain of a trace with a host: $out"
expect 2 "$ebb" explain gpt.trace --set opt.lr=1
[[ $err == *"--set is for experiment files"* ]] || fail "explain of a trace with --set: $err"
expect 2 "$ebb" explain gpt.trace --link host=2
[[ $err == *"--link needs --host"* ]] || fail "a link to nowhere: $err"
expect 0 "$ebb" trace make resnet --layers 3 -o net.log
expect 0 "$ebb" explain net.log --no-chart
expect 2 "$ebb" explain "$source_dir/tests/golden/checkmate/graphs/unit_linear_8.json"
[[ $err == *"ebb plan"*"--ratio"* ]] || fail "explain of a graph: $err"
# what it predicts is what training predicts, with a host tier and without
for tier in "" memory.host=1MiB; do
    budget=$((floor + floor / 4))
    expect 0 "$ebb" explain gpt.yaml --budget $budget --policy lru --no-chart ${tier:+--set $tier}
    row=($(grep -A2 "^Predicted" <<<"$out" | tail -1))
    for policy in "" lru; do
        expect 0 "$ebb" train gpt.yaml --budget $budget --updates 1 --no-validation ${tier:+--set $tier} ${policy:+--policy $policy}
        says=${out##*predicted time x}
        says=${says%%$'\n'*}
        shown=${row[3]}
        [ -z "$policy" ] || shown=${row[4]}
        [ "$says" = "${shown%x}" ] || fail "explain ($tier, ${policy:-default}) predicts $shown, training $says"
    done
done

finish
