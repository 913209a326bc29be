#!/usr/bin/env bash
# docs/own-model.md, from an empty folder to a trained network: its commands, copied and run.
set -euo pipefail
ebb=$1 source=$2
fail() {
    echo "FAIL: $*" >&2
    exit 1
}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/bin" "$work/empty"
ln -s "$ebb" "$work/bin/ebb"
PATH=$work/bin:$PATH
sed -n '/^```$/,/^```$/p' "$source/docs/own-model.md" | sed -n '2,/^```$/p' | sed '$d' >"$work/commands"
[ "$(wc -l <"$work/commands")" = 5 ] || fail "the page has other than five commands"
cd "$work/empty"
bash -euo pipefail "$work/commands" >"$work/log" 2>&1 || fail "a command of the page failed: $(tail -5 "$work/log")"
[ -s weights.safetensors ] || fail "no weights were written"

# the network shown on the page
awk '/^```yaml$/{on=1; next} /^```$/{if (on) exit} on' "$source/docs/own-model.md" >page.yaml
ebb model show ./page.yaml | grep -q "^head.2 .*linear .* 330 " || fail "the network of the page is another"

# a file is found beside its experiment, wherever one stands
(cd / && ebb train "$work/empty/exp.yaml" --updates 2 --no-validation --json) | grep -q '"status": "ok"' || fail "train from another folder"

# resuming: comments may change, the network may not
ebb train exp.yaml --updates 2 --no-validation --checkpoint ck >/dev/null 2>&1 || fail "train with checkpoints"
sed -i '1i # a comment' net.yaml
ebb train exp.yaml --updates 4 --no-validation --resume ck >/dev/null 2>&1 || fail "a comment is another network"
sed -i 's/relu(t1)/sigmoid(t1)/' net.yaml
if ebb train exp.yaml --updates 6 --no-validation --resume ck >log 2>&1; then fail "another network resumed"; fi
grep -q "model file has changed" log || fail "the refusal does not say why: $(cat log)"

# mistakes of the model file are told where the experiment is checked, all at once
sed -i 's/conv1: Conv2d(3, 8, 3, /conv1: Conv2d(3, 8, 3, strid=1, /; s/sigmoid/sigmid/' net.yaml
if ebb experiment validate exp.yaml >log; then fail "broken files are valid"; fi
grep -q "net.yaml:[0-9]*:[0-9]*: .*nearest: stride" log && grep -q "nearest: sigmoid" log || fail "not every mistake: $(cat log)"

# an experiment keeps the file: the folder it came from may go
mkdir -p first/nets
cp page.yaml first/nets/net.yaml
cat >first/exp.yaml <<'EOF'
description: own
entrypoint: ebb:image_classification
data: {name: imagefolder, data_dir: synthetic, resize: 32, crop: 32, classes: 10, samples: 32, val_samples: 8}
model: {file: nets/net.yaml, planes: "${planes}"}
hyperparameters: {global_batch_size: 4, planes: {type: categorical, vals: [4, 8]}}
opt: {name: SGD, lr: 0.01}
searcher: {name: grid, metric: validation_loss, max_steps: 1}
batches_per_step: 2
EOF
EBB_STATE=$work/state ebb run first/exp.yaml >log 2>&1 || fail "ebb run: $(tail -5 log)"
grep -q "2 trials" log || fail "the search over an option of the file: $(cat log)"
rm -r first
mkdir def
EBB_STATE=$work/state ebb experiment download-model-def 1 --output-dir def >/dev/null || fail "download-model-def"
tar tzf def/*.tar.gz | grep -q nets/net.yaml || fail "the definition has no model file: $(tar tzf def/*.tar.gz)"

# weights are measured class by class; training ends when it does not get better
cd "$work/empty"
ebb model show cifar_resnet20 --set blocks=1,1,1 --set planes=4 --as-file >net.yaml
ebb train exp.yaml --updates 60 --set opt.lr=0 --validate-every 2 --patience 3 --checkpoint best-of --export-weights w.npz >log 2>&1 || fail "train: $(tail -3 log)"
grep -q "not become better in 3 validations: training ends after update [0-9][0-9]*" log || fail "no early end: $(cat log)"
[ -f best-of/best/manifest.json ] || fail "no best checkpoint"
ebb eval exp.yaml --weights w.npz --confusion confusion.csv >log || fail "eval"
grep -q "^validation_top5_accuracy" log || fail "no top five"
[ "$(wc -l <confusion.csv)" = 11 ] || fail "a confusion matrix of other than ten classes"
ebb eval exp.yaml --weights best-of/best --json | grep -q '"confusion"' || fail "eval of a checkpoint"
sed -i 's/Linear(16, 10/Linear(16, 11/' net.yaml
if ebb eval exp.yaml --weights w.npz >log 2>&1; then fail "weights of another shape fit"; fi
grep -q "other: linear.weight is F32 \[10, 16\], the model has F32 \[11, 16\]" log || fail "what does not fit is not told: $(cat log)"
ebb train exp.yaml --updates 1 --no-validation --init-weights w.npz --fresh 'linear.*' >log 2>&1 || fail "a new head: $(cat log)"

# a table, and a network that takes its columns
cat >table.yaml <<'EOF'
description: table
entrypoint: ebb:image_classification
data: {name: csv, train_files: t.csv, val_files: t.csv, target: kind, normalize: standard}
model: {file: table_net.yaml}
hyperparameters: {global_batch_size: 4}
opt: {name: Adam, lr: 0.1}
searcher: {name: single, metric: validation_loss, max_steps: 1}
EOF
cat >table_net.yaml <<'EOF'
options: {features: 1, classes: 2}
inputs: {x: [features]}
modules: {fc: "Linear(features, classes)"}
forward: [return fc(x)]
loss: cross_entropy
EOF
{ echo 'a,b,kind' && for i in 1 2 3 4 5 6 7 8; do echo "$i,$((9 - i)),$([ $i -gt 4 ] && echo large || echo small)"; done; } >t.csv
ebb data check table.yaml | grep -q "training 8 good, 0 bad" || fail "data check"
ebb train table.yaml --updates 40 --export-weights t.npz >/dev/null || fail "training on a table"
ebb eval table.yaml --weights t.npz --answers answers.csv | grep -q "validation_accuracy *1$" || fail "a table that is not learned"
[ "$(wc -l <answers.csv)" = 9 ] || fail "answers of other than eight rows"
sed -i '3s/^2/two/' t.csv
if ebb data check table.yaml >log 2>&1; then fail "a word among numbers is good"; fi
grep -q "t.csv:3: column 1 (a): found 'two'" log || fail "data check does not say where: $(cat log)"

# text: the same seed, the same words
cat >words.yaml <<'EOF'
description: words
entrypoint: ebb:language_model
data: {name: text, tokenizer: byte, train_files: words.txt, sequence_length: 8}
model: {name: gpt2_124M, layers: 1, width: 16, heads: 2, dropout: 0, length: 8, positions: 8}
hyperparameters: {global_batch_size: 4}
opt: {name: AdamW, lr: 0.01}
searcher: {name: single, metric: validation_loss, max_steps: 1}
EOF
for i in $(seq 200); do printf abc; done >words.txt
ebb train words.yaml --updates 200 --set opt.lr=0.02 --no-validation --export-weights words.npz >/dev/null || fail "training on words"
[ "$(ebb generate words.yaml -w words.npz -p abca -n 12 -t 0)" = abcabcabcabcabca ] || fail "greedy text"
[ "$(ebb generate words.yaml -w words.npz -p ab -n 30 -t 3 --seed 5)" = "$(ebb generate words.yaml -w words.npz -p ab -n 30 -t 3 --seed 5)" ] || fail "one seed, two texts"
# text within a budget is the same text; below what the model needs there is none
free=$(ebb generate words.yaml -w words.npz -p ab -n 20 --seed 3)
[ "$(ebb generate words.yaml -w words.npz -p ab -n 20 --seed 3 --budget 80KiB)" = "$free" ] || fail "another text within a budget"
[ "$(ebb generate words.yaml -w words.npz -p ab -n 20 --seed 3 --set memory.budget=80KiB --set memory.device=far)" = "$free" ] || fail "another text on another device"
if ebb generate words.yaml -w words.npz -p ab --set memory.budget=4KiB >log 2>&1; then fail "text in 4 KiB"; fi
grep -q "a budget of 4096 bytes is too small for gpt2_124M: the least it can run in is" log || fail "generate below the floor: $(cat log)"
# evaluation needs no memory of the training step
whole=$(ebb train words.yaml --updates 1 --no-validation --json | sed -n 's/.*"floor_bytes": *\([0-9]*\).*/\1/p')
ebb eval words.yaml -w words.npz --budget $((whole - 4096)) >log 2>&1 || fail "evaluation within less than training: $(cat log)"
if ebb eval words.yaml -w words.npz --budget 4KiB >log 2>&1; then fail "evaluation in 4 KiB"; fi
grep -q "too small for gpt2_124M eval, batch" log || fail "a refusal of evaluation names another step: $(cat log)"
cat >numbers.yaml <<'YAML'
entrypoint: ebb:language_model
data: {name: tokens, data_dir: synthetic, sequence_length: 8, vocabulary: 40, samples: 16, val_samples: 4}
model: {name: wlm_lstm, embedding: 8, hidden: 8, vocabulary: 40, length: 8}
hyperparameters: {global_batch_size: 2}
opt: {name: SGD, lr: 0.1}
searcher: {name: single, metric: validation_loss, max_steps: 1}
YAML
ebb train numbers.yaml --updates 1 --no-validation --export-weights numbers.npz >log 2>&1 || fail "numbers: $(tail -3 log)"
[[ $(ebb generate numbers.yaml -w numbers.npz -p "1 2 3" -n 2) =~ ^1\ 2\ 3\ [0-9]+\ [0-9]+$ ]] || fail "tokens without blanks: $(ebb generate numbers.yaml -w numbers.npz -p "1 2 3" -n 2)"
if ebb generate exp.yaml -w w.npz -p a >log 2>&1; then fail "a classifier writes"; fi

# an experiment goes on, and others begin from it, when the folder it came from is gone: its definition has the files, of ONNX, too
post() { # body: a request to the master on its socket
    python3 - "$EBB_STATE/master.sock" "$@" <<'EOF'
import http.client, json, socket, sys
class Local(http.client.HTTPConnection):
    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(sys.argv[1])
c = Local("localhost")
c.request(sys.argv[2], sys.argv[3], sys.argv[4] if len(sys.argv) > 4 else None, {"Content-Type": "application/json"})
r = c.getresponse()
text = r.read().decode()
if r.status >= 300:
    sys.exit(f"{r.status} {text}")
print(text)
EOF
}
state_of() { post GET "/experiments/$1" | python3 -c 'import json, sys; print(json.load(sys.stdin)["state"])'; }
until_state() {
    for i in $(seq 600); do
        case $(state_of "$1") in "$2") return 0 ;; ERROR | CANCELED) return 1 ;; esac
        sleep 0.1
    done
    return 1
}
export EBB_STATE=$work/kept
ebb model export cifar_resnet20 --set blocks=1,1,1 --set planes=4 -o page.onnx >/dev/null || fail "export"
for net in page.yaml page.onnx; do
    cd "$work/empty"
    mkdir -p second/nets
    cp $net second/nets/
    cat >second/exp.yaml <<EOF
description: own
entrypoint: ebb:image_classification
data: {name: imagefolder, data_dir: synthetic, resize: 32, crop: 32, classes: 10, samples: 32, val_samples: 8}
model: {file: nets/$net}
hyperparameters: {global_batch_size: 4}
opt: {name: SGD, lr: 0.01}
searcher: {name: single, metric: validation_loss, max_steps: 60}
batches_per_step: 4
min_checkpoint_period: 1
EOF
    ebb run second/exp.yaml >run.log 2>&1 &
    master=$!
    for i in $(seq 600); do
        [ -S "$EBB_STATE/master.sock" ] && ls "$EBB_STATE"/checkpoints/*/manifest.json >/dev/null 2>&1 && break
        sleep 0.1
    done
    rm -r second
    kill -9 $master
    wait $master 2>/dev/null || true
    id=$(grep -o 'xperiment [0-9]*' run.log | head -1 | grep -o '[0-9]*')
    (cd / && ebb run --resume "$id" >"$work/log" 2>&1) || fail "restart without the folder: $(tail -5 "$work/log")"
    ebb serve >serve.log 2>&1 &
    server=$!
    for i in $(seq 100); do state_of "$id" >/dev/null 2>&1 && break || sleep 0.1; done
    [ "$(state_of "$id")" = COMPLETED ] || fail "restart without the folder: $(state_of "$id")"
    body=$(python3 -c 'import json, sys; print(json.dumps({"experiment_config": open(sys.argv[1]).read(), "parent_id": int(sys.argv[2]), "activate": True}))' /dev/stdin "$id" <<EOF
description: a fork
entrypoint: ebb:image_classification
data: {name: imagefolder, data_dir: synthetic, resize: 32, crop: 32, classes: 10, samples: 32, val_samples: 8}
model: {file: nets/$net}
hyperparameters: {global_batch_size: 8}
opt: {name: SGD, lr: 0.02}
searcher: {name: single, metric: validation_loss, max_steps: 2}
batches_per_step: 2
EOF
    )
    fork=$(post POST /experiments "$body" | python3 -c 'import json, sys; print(json.load(sys.stdin)["id"])') || fail "fork"
    until_state "$fork" COMPLETED || fail "fork of an experiment whose folder is gone: $(post GET "/experiments/$fork")"
    kill $server
    wait $server 2>/dev/null || true
done
unset EBB_STATE
echo OK
