#!/usr/bin/env bash
# Data of one's own, without code and with a command; answers to new inputs.
set -euo pipefail
ebb=$1
fail() {
    echo "FAIL: $*" >&2
    exit 1
}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/bin" "$work/empty"
ln -s "$ebb" "$work/bin/ebb"
PATH=$work/bin:$PATH
cd "$work/empty"
number() { grep -o "\"$1\": [0-9]*" log | grep -o '[0-9]*$'; }
hash_of() { grep -o '"weights_sha256": "[0-9a-f]*"'; }

# rows of a table
cat >table.yaml <<'EOF'
description: table
entrypoint: ebb:image_classification
data: {name: csv, train_files: t.csv, val_files: t.csv, target: kind, normalize: standard}
model: {file: net.yaml}
hyperparameters: {global_batch_size: 4}
opt: {name: Adam, lr: 0.1}
searcher: {name: single, metric: validation_loss, max_steps: 1}
EOF
cat >net.yaml <<'EOF'
options: {features: 1, classes: 2}
inputs: {x: [features]}
modules: {fc: "Linear(features, classes)"}
forward: [return fc(x)]
loss: cross_entropy
EOF
{ echo 'a,b,kind' && for i in 1 2 3 4 5 6 7 8; do echo "$i,$((9 - i)),$([ $i -gt 4 ] && echo large || echo small)"; done; } >t.csv
ebb train table.yaml --updates 40 --export-weights t.npz >/dev/null || fail "training on a table"
printf 'b,a\n8,1\n1,8\n2,7\n' >new.csv
ebb predict table.yaml -w t.npz -i new.csv >log || fail "predict of rows: $(cat log)"
[ "$(cut -d, -f1-3 log)" = "$(printf 'input,class,name\n0,1,small\n1,0,large\n2,0,large')" ] || fail "answers: $(cat log)"
ebb predict table.yaml -w t.npz -i new.csv --json --batch 2 >two.json
ebb predict table.yaml -w t.npz -i new.csv --json >one.json
cmp -s one.json two.json || fail "answers depend on the batch"
python3 -c 'import json; a = json.load(open("one.json")); assert [x["name"] for x in a] == ["small", "large", "large"] and abs(sum(t["probability"] for t in a[0]["top"]) - 1) < 1e-6' || fail "JSON: $(cat one.json)"
ebb eval table.yaml --weights t.npz --answers answers.csv >/dev/null
ebb predict table.yaml -w t.npz -i t.csv -o same.csv || fail "predict -o"
[ "$(tail -n +2 answers.csv | cut -d, -f3,4)" = "$(tail -n +2 same.csv | cut -d, -f2,4)" ] || fail "eval and predict differ"

# pictures: colours, mixup and averages of weights; the same bits in any budget and after interruptions
ebb data make '{name: imagefolder, data_dir: synthetic, classes: 3}' pictures --train 6 --val 6 --format png >/dev/null
cat >pictures.yaml <<'EOF'
description: pictures
entrypoint: ebb:image_classification
data: {name: imagefolder, data_dir: pictures, resize: 32, crop: 32, augment: {flip: true, brightness: 0.3, saturation: 0.3, hue: 0.1}, mixup: 0.3}
model: {name: cifar_resnet20, blocks: [1, 1, 1], planes: 4}
hyperparameters: {global_batch_size: 3}
opt: {name: SGD, lr: 0.05, ema: 0.5}
searcher: {name: single, metric: validation_loss, max_steps: 1}
EOF
ebb train pictures.yaml --updates 4 --no-validation --checkpoint pck --export-weights p.npz --json >log 2>&1 || fail "training on pictures: $(tail -3 log)"
kept=$(hash_of <log) floor=$(number floor_bytes)
[ "$(ebb train pictures.yaml --updates 4 --no-validation --budget "$floor" --workers 0 --json | hash_of)" = "$kept" ] || fail "colours and mixup depend on the budget"
[ "$(ebb train pictures.yaml --updates 4 --no-validation --set data.mixup=0 --json | hash_of)" != "$kept" ] || fail "mixup changes nothing"
[ "$(ebb train pictures.yaml --updates 4 --no-validation --set data.augment.hue=0 --json | hash_of)" != "$kept" ] || fail "colours change nothing"
ebb train pictures.yaml --updates 2 --no-validation --checkpoint pck2 >/dev/null 2>&1
[ "$(ebb train pictures.yaml --updates 4 --no-validation --resume pck2 --json | hash_of)" = "$kept" ] || fail "colours and mixup depend on interruptions"
ebb eval pictures.yaml --weights pck/update-000000000004 --answers eval.csv >/dev/null || fail "eval of pictures"
find pictures/val -name '*.png' | sort >names
ebb predict pictures.yaml -w pck/update-000000000004 $(sed 's/^/-i /' names) -o pred.csv || fail "predict of pictures"
[ "$(cut -d, -f3,4 eval.csv | tail -n +2)" = "$(cut -d, -f2,4 pred.csv | tail -n +2)" ] || fail "pictures: eval $(cat eval.csv) predict $(cat pred.csv)"
[ "$(cut -d, -f1 pred.csv | tail -n +2)" = "$(cat names)" ] || fail "names of inputs"
one=$(dirname "$(head -1 names)")
ebb predict pictures.yaml -w p.npz -i "$one" --budget 1MiB -o small.csv || fail "predict in a budget"
ebb predict pictures.yaml -w p.npz -i "$one" -o whole.csv
cmp -s small.csv whole.csv || fail "answers depend on the budget"
if ebb predict pictures.yaml -w p.npz -i "$one" --budget 1KiB 2>log; then fail "a budget below the floor"; fi
grep -q "the least it can run in is [0-9]* bytes" log || fail "no floor is named: $(cat log)"
ebb model eval cifar_resnet20 --set blocks=1,1,1 --set planes=4 --set classes=3 --weights p.npz --batch 5 -o e.npz >/dev/null
mkdir in
(cd in && python3 -m zipfile -e ../e.npz . && mv input/*.npy . && python3 -m zipfile -c ../x.npz ./*.npy)
ebb predict pictures.yaml -w p.npz -i x.npz -o out.npz --batch 2 || fail "predict of arrays"
mkdir out && (cd out && python3 -m zipfile -e ../out.npz .)
cmp -s out/*.npy in/output/*.npy || fail "arrays of answers are not those of model eval"

# pictures that a table names
for f in pictures/train/*/*.png; do echo "${f#pictures/},$(basename "$(dirname "$f")")"; done | sed '1i file,label' >list.csv
ebb train pictures.yaml --updates 1 --no-validation --set data.train_labels=list.csv --set data.val_labels=list.csv >log 2>&1 || fail "a table of pictures: $(tail -3 log)"
section="{name: imagefolder, data_dir: pictures, train_labels: list.csv, resize: 32, crop: 32}"
ebb data check "$section" | grep -q "training 6 good, 0 bad" || fail "data check of a table"
sed -i "2s|^|$PWD/pictures/|" list.csv
ebb data check "$section" | grep -q "training 6 good, 0 bad" || fail "data check of a table with an absolute name"
echo "train/gone.png,x" >>list.csv
if ebb data check "$section" 2>log >/dev/null; then fail "a picture that is not there is good"; fi
grep -q "train sample 6: .*gone.png" log || fail "data check does not say which: $(cat log)"

# texts
cat >words.yaml <<'EOF'
description: words
entrypoint: ebb:language_model
data: {name: text, tokenizer: byte, train_files: words.txt, sequence_length: 8}
model: {name: gpt2_124M, layers: 1, width: 16, heads: 2, dropout: 0, length: 8, positions: 8}
hyperparameters: {global_batch_size: 4}
opt: {name: AdamW, lr: 0.02}
searcher: {name: single, metric: validation_loss, max_steps: 1}
EOF
for i in $(seq 200); do printf abc; done >words.txt
ebb train words.yaml --updates 200 --no-validation --export-weights words.npz >/dev/null || fail "training on words"
printf 'abcabca' >say.txt
[ "$(ebb predict words.yaml -w words.npz -i say.txt | tail -1 | cut -d, -f3,4)" = "98,b" ] || fail "the next token: $(ebb predict words.yaml -w words.npz -i say.txt)"
ebb predict words.yaml -w words.npz -i say.txt --json | grep -q '"perplexity": *1\.[0-9]' || fail "perplexity: $(ebb predict words.yaml -w words.npz -i say.txt --json)"
if ebb predict pictures.yaml -w p.npz -i say.txt 2>log; then fail "a text for pictures"; fi
grep -q "takes no text" log || fail "no reason: $(cat log)"
if ebb predict words.yaml -w words.npz -i "$(head -1 names)" 2>log; then fail "a picture for words"; fi

# a command: the same bits in any budget, with any number of workers, after a kill
cat >samples.py <<'EOF'
import json, struct, sys
out = sys.stdout.buffer
for line in sys.stdin:
    words = line.split()
    if words[0] == "describe":
        out.write(json.dumps({"train": 64, "validation": 8, "classes": 2, "fields": [{"name": "x", "dtype": "f64", "shape": [2]}, {"name": "y", "dtype": "i32", "shape": []}]}).encode() + b"\n")
    else:
        i = int(words[2]) + (100 if words[1] == "validation" else 0)
        out.write(b"ok\n" + struct.pack("<ddi", i % 7 - 3, i % 5 - 2, int(i % 7 > i % 5)))
    out.flush()
EOF
sed 's/^data: .*/data: {name: command, command: [python3, samples.py], workers: 2}/; s/size: 4/size: 8/' table.yaml >command.yaml
ebb data check command.yaml | grep -q "command: training 64 good, 0 bad; validation 8 good" || fail "data check of a command"
(cd / && ebb train "$work/empty/command.yaml" --updates 60 --json) >log 2>&1 || fail "training by a command: $(tail -3 log)"
kept=$(hash_of <log) floor=$(number floor_bytes)
grep -Eq '"validation_accuracy": (1|0\.[89])' log || fail "nothing was learned: $(cat log)"
[ "$(ebb train command.yaml --updates 60 --no-validation --workers 0 --budget "$floor" --json | hash_of)" = "$kept" ] || fail "a command's data depend on workers or budget"
sed 's/    out.flush()/    out.flush(); import time; time.sleep(0.005)/' samples.py >slow.py
ebb train command.yaml --updates 60 --no-validation --set 'data.command=[python3, slow.py]' --checkpoint cck --checkpoint-every 5 >/dev/null 2>&1 &
for i in $(seq 400); do
    if [ -d cck/update-000000000020 ] || [ -d cck/update-000000000025 ]; then break; fi
    sleep 0.02
done
kill -9 $!
wait $! 2>/dev/null || true
[ "$(ebb train command.yaml --updates 60 --no-validation --resume cck --json | hash_of)" = "$kept" ] || fail "a command's data depend on kills"

# the same in an experiment: the program is among its files
mkdir def && cp samples.py net.yaml def
sed 's/max_steps: 1/max_steps: 3/' command.yaml >def/exp.yaml
echo 'batches_per_step: 4' >>def/exp.yaml
EBB_STATE=$work/state ebb run def/exp.yaml def >log 2>&1 || fail "a command in an experiment: $(tail -5 log)"

# training that does not get better ends, by the file, and where it would have without an interruption
early='--set searcher.early_stopping.patience=3 --set min_validation_period=1 --set opt.lr=0 --validate-every 2'
ebb train table.yaml --updates 60 $early >log 2>&1 || fail "early end: $(tail -3 log)"
grep -q "validation_loss has not become better in 3 validations: training ends after update 8" log || fail "no early end: $(cat log)"
ebb train table.yaml --updates 5 $early --checkpoint eck >/dev/null 2>&1
ebb train table.yaml --updates 60 $early --resume eck >log 2>&1
grep -q "training ends after update 8" log || fail "an interruption moves the end: $(cat log)"
ebb train table.yaml --updates 20 $early --set searcher.early_stopping.metric=validation_accuracy --set searcher.early_stopping.smaller_is_better=false --patience 2 >log 2>&1
grep -q "validation_loss has not become better in 2 validations" log || fail "--patience is about the searcher's metric: $(cat log)"
sed 's/max_steps: 1/max_steps: 1, early_stopping: {patience: 3}/' table.yaml >patient.yaml
if ebb experiment validate patient.yaml >log 2>&1; then fail "early stopping without validations is valid"; fi
grep -q "min_validation_period" log || fail "no reason: $(cat log)"

# what a terminal shows: how far, how long, loss, rate, samples per second, memory
python3 - "$ebb" <<'EOF' || fail "the progress line"
import fcntl, os, pty, re, struct, sys, termios
for columns in 84, 160:
    pid, fd = pty.fork()
    if pid == 0:
        fcntl.ioctl(2, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        os.execv(sys.argv[1], ["ebb", "train", "pictures.yaml", "--updates", "150", "--no-validation", "--budget", "3MiB"])
    seen = b""
    try:
        while True:
            part = os.read(fd, 65536)
            if not part:
                break
            seen += part
    except OSError:
        pass
    os.waitpid(pid, 0)
    lines = [x for x in re.split("[\\r\\n]", seen.decode()) if x.startswith("train") and "loss" in x]
    if not lines:
        sys.exit(f"{columns} columns: no line of progress: {seen[-300:]}")
    if not re.search(r"\d+/150 .* left  loss \d\.\d+  rate 0\.05  \S+ items/s  [\d.]+ [KM]iB of 3", lines[-1]):
        sys.exit(f"{columns} columns: {lines[-1]!r}")
EOF
echo OK
