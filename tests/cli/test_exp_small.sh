# Small things of experiments: bounds, orders, words and what is left behind.
# $1 = the ebb program, $2 = source folder
. "$2/tests/cli/exp_common.sh"

mkdir loop && cp "$source_dir/examples/python-loop/train.py" loop/
cat >exp.yaml <<'YAML'
entrypoint: [python3, train.py]
batches_per_step: 2
max_restarts: 0
hyperparameters: {global_batch_size: 4, learning_rate: {type: double, minval: 0.1, maxval: 0.5}}
searcher: {name: random, metric: validation_error, max_steps: 2, max_trials: 3}
YAML

# ---- the same bounds in a file and by a command
expect 2 "$ebb" run exp.yaml loop --config resources.max_slots=0
expect 2 "$ebb" run exp.yaml loop --config resources.weight=1e308
expect 2 "$ebb" run exp.yaml loop --config 'labels=[a, ""]'
has err.txt 'labels[1]: found "", allowed: a string that is not empty'
expect 0 "$ebb" experiment create exp.yaml loop --paused
expect 2 "$ebb" experiment set max-slots 1 0
has err.txt "max_slots is a number > 0"
expect 2 "$ebb" experiment set weight 1 1e308
expect 0 "$ebb" experiment set weight 1 3
expect 0 "$ebb" experiment set max-slots 1 none

# ---- two experiments of one second have seeds of their own
expect 0 "$ebb" experiment create exp.yaml loop --paused
expect 0 "$ebb" experiment create exp.yaml loop --paused
seed() { "$ebb" experiment config "$1" | sed -n 's/.*experiment_seed: //p'; }
[ "$(seed 2)" != "$(seed 3)" ] || fail "the seed of two experiments: $(seed 2)"

# ---- templates have known keys only
printf 'description: x\nsearchr: {name: single}\nresources: {wieght: 2}\n' >template.yaml
expect 2 "$ebb" template set bad template.yaml
has err.txt "bad:2:1: searchr: unknown key, nearest: searcher"
has err.txt "bad:3:13: resources.wieght: unknown key, nearest: weight"
expect 1 "$ebb" template describe bad
printf 'memory: {budgit: 1MiB, mem_tracer: {margin: 1}}\n' >template.yaml
expect 2 "$ebb" template set bad template.yaml
has err.txt "memory.budgit: unknown key, nearest: budget"
has err.txt "memory.mem_tracer.margin: unknown key"
printf 'memory: {budget: "${room}", master_weights: split}\n' >template.yaml # the rest is in the file
expect 0 "$ebb" template set half template.yaml
printf 'description: x\nresources: {weight: 2}\nmodel: {anything: 1}\n' >template.yaml
expect 0 "$ebb" template set good template.yaml

# ---- charts of nothing
expect 1 "$ebb" experiment charts 99 -o nothing
[ ! -e nothing ] || fail "charts of an absent experiment leave a folder"

# ---- who waits for a slot that is busy is told so; the table counts those who wait
sed -i 's/^max_restarts.*/&\nmin_validation_period: 1\ncheckpoint_policy: all/' exp.yaml
sed 's/^            for batch in .*/            while not os.path.exists(ebb.hparam("go")): time.sleep(0.02)\n&/; s/^import json/&, time/' loop/train.py >slow.py
mkdir slow && mv slow.py slow/train.py
"$ebb" run exp.yaml slow --no-charts --slots 1 --config hyperparameters.go="$work/go" >slow.out 2>&1 &
pid=$!
wait_for grep -q running slow.out
expect 0 "$ebb" experiment list-trials 4 --json
same "why it waits" "$(field "[t['waiting'] for t in x['trials'] if t['state'] == 'PENDING'][0]")" "the slots are busy"
same "steps it is to train" "$(field "x['trials'][0]['target_steps']")" 2
touch go
wait $pid
same "exit code of the slow one" $? 0

# ---- checkpoints that are there come first
expect 0 "$ebb" experiment list-checkpoints 4
awk -F'|' 'NR > 2 { gsub(/ /, "", $3); print $3 }' out.txt | uniq >states.txt
same "states of checkpoints, in order" "$(tr '\n' ' ' <states.txt)" "COMPLETED DELETED "

# ---- Ctrl-C of a search whose trials have not all begun names no trial 0
rm go slow.out
"$ebb" run exp.yaml slow --no-charts --slots 1 --config hyperparameters.go="$work/go" >slow.out 2>&1 &
pid=$!
wait_for grep -q running slow.out
expect 0 "$ebb" experiment kill 5
wait $pid
has slow.out CANCELED
grep -q "trial 0" slow.out && fail "there is no trial 0: $(grep 'trial 0' slow.out)"

# ---- a terminal: loss, targets and all trials; nothing is at 100 % that failed; dumb ones get lines
if command -v script >/dev/null; then
    screen() { # screen TERM FILE OPTION...: what a terminal of 120 columns is sent
        local term=$1 file=$2
        shift 2
        TERM=$term script -qec "stty cols 120 rows 30; $ebb run exp.yaml $file --no-charts $*" /dev/null </dev/null >screen.txt 2>&1
    }
    screen xterm loop --slots 1
    has screen.txt "of 3 trials ended"
    has screen.txt "loss"
    grep -qE " [012]/2 " screen.txt || fail "no target of steps in the table"
    echo 'raise SystemExit(3)' >loop/bad.py
    screen xterm loop "--slots 1 --config 'entrypoint=[python3, bad.py]'"
    has screen.txt "ERROR"
    grep -q "100.0 %" screen.txt && fail "an experiment that failed is at 100 %"
    screen dumb loop --slots 1
    grep -q $'\x1b\[[0-9]*A' screen.txt && fail "a dumb terminal is drawn on"
    has screen.txt "running"
    screen xterm loop "--slots 1 --config description=日本語日本語日本語日本語日本語日本語日本語日本語日本語日本語日本語日本語日本語日本語日本語日本語日本語日本語日本語日本語日本語日本語日本語"
    width=$(python3 - <<'PY'
import re, unicodedata
worst = 0
for line in open("screen.txt", encoding="utf-8", errors="replace").read().replace("\r", "").split("\n"):
    line = re.sub("\x1b\\[[0-9]*[A-Za-z]", "", line)
    worst = max(worst, sum(2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in line))
print(worst)
PY
)
    [ "$width" -le 120 ] || fail "a line of $width columns on a terminal of 120"
fi

# ---- containers are recorded with one warning; aggregation that does nothing is told
expect 0 "$ebb" run exp.yaml loop --no-charts --config 'environment={image: a/b:1, force_pull_image: true}' --config optimizations.aggregation_frequency=4
same "warnings" "$(grep -c warning: err.txt)" 2
has err.txt "environment.image: recorded; trials run on this machine without a container"
has err.txt "optimizations.aggregation_frequency: 4 has no effect on this entrypoint"

# ---- what Python trials may ask, and their shared memory
cat >loop/ask.py <<'PY'
import os, ebb_client
class Trial(ebb_client.Trial):
    def __init__(self, context):
        super().__init__(context)
        about = os.statvfs("/dev/shm")
        print("asked", context.get_hparam("learning_rate") > 0, context.get_global_batch_size(),
              context.get_per_slot_batch_size(), about.f_blocks * about.f_frsize, flush=True)
    def train_batch(self, batch): return {"loss": 1.0}
    def validate(self): return {"validation_error": 1.0}
    def save(self, directory): open(directory + "/x", "w").close()
    def load(self, directory, is_own): pass
PY
expect 0 "$ebb" run exp.yaml loop --no-charts --config entrypoint=ask:Trial --config searcher.max_trials=1 --json
id=$(sed -n 's/.*"created", "experiment_id": \([0-9]*\).*/\1/p' out.txt)
expect 0 "$ebb" experiment logs "$id"
has out.txt "asked True 4 4 4294967296"

# ---- a metric that the task never reports is no experiment
cat >task.yaml <<'YAML'
entrypoint: ebb:language_model
data: {name: language, vocabulary: 40, sequence_length: 16, samples: 400, val_samples: 10}
model: {name: gpt2_124M, layers: 2, width: 32, heads: 2}
hyperparameters: {global_batch_size: 4}
opt: {name: AdamW, lr: 0.001}
searcher: {name: single, metric: accuracy, max_steps: 1}
YAML
for command in "run" "experiment validate" "experiment create"; do
    expect 2 "$ebb" $command task.yaml
    cat out.txt >>err.txt
    has err.txt 'task.yaml:6:34: searcher.metric: found "accuracy", which ebb:language_model does not report'
done
expect 0 "$ebb" train task.yaml --updates 1 # it needs no metric
sed 's/metric: accuracy/metric: validation_loss, early_stopping: {patience: 2, metric: accuracy}/' task.yaml >stop.yaml
echo 'min_validation_period: 1' >>stop.yaml
expect 2 "$ebb" run stop.yaml
has err.txt 'stop.yaml:6:89: searcher.early_stopping.metric: found "accuracy", which ebb:language_model does not report'
has err.txt 'invalid: 1 error'
cat >tree.yaml <<'YAML'
entrypoint: ebb:regression
model: {name: dtr_treelstm, features: 8, memory: 8, depth: 2}
hyperparameters: {global_batch_size: 4}
opt: {name: SGD, lr: 0.001}
searcher: {name: single, metric: validation_mae, max_steps: 1, early_stopping: {patience: 2}}
min_validation_period: 1
YAML
expect 2 "$ebb" run tree.yaml
has err.txt 'tree.yaml:5:34: searcher.metric: found "validation_mae", which ebb:regression does not report, allowed: validation_loss'
has err.txt 'invalid: 1 error'

# ---- what the section memory says is what is run; a sample that cannot be is tried once, and told once
sed 's/metric: accuracy/metric: validation_loss/' task.yaml >loss.yaml
expect 0 "$ebb" run loss.yaml --no-charts --config memory.precision=bf16
expect 1 "$ebb" run loss.yaml --no-charts --config memory.budget=10KB
has out.txt "ERROR after"
has out.txt ": 1 trial"
cat err.txt >>out.txt
same "times it is said that the budget is too small" "$(grep -c "is too small" out.txt)" 1

# ---- pictures that would be passed over
mkdir -p folder/train/a folder/train/b
for i in 1 2 3 4; do
    cp "$source_dir/tests/golden/data/progressive.jpg" folder/train/a/$i.jpg
    cp "$source_dir/tests/golden/data/progressive.jpg" folder/train/b/$i.jpg
done
cat >pictures.yaml <<YAML
entrypoint: ebb:image_classification
data: {name: imagefolder, data_dir: $work/folder, resize: 16, crop: 16}
model: {name: cifar_resnet20}
hyperparameters: {global_batch_size: 4}
opt: {name: SGD, lr: 0.001}
searcher: {name: single, metric: validation_accuracy, max_steps: 1}
YAML
expect 0 "$ebb" train pictures.yaml --updates 1
sed 's/cifar_resnet20/alexnet/; s/16/28/g' pictures.yaml >alexnet.yaml
expect 2 "$ebb" train alexnet.yaml --updates 1
has err.txt "too small for it"
touch folder/train/a/notes.txt folder/train/b/.hidden.webp
expect 0 "$ebb" train pictures.yaml --updates 1
touch folder/train/b/5.webp folder/train/b/6.gif
expect 2 "$ebb" train pictures.yaml --updates 1
has err.txt "webp: not read: PNG and JPEG are; convert it, or take it out of the folder"
rm folder/train/b/5.webp folder/train/b/6.gif
ln -s nowhere.jpg folder/train/b/7.jpg
expect 2 "$ebb" train pictures.yaml --updates 1
has err.txt "7.jpg: a link that leads to no file"
rm folder/train/b/7.jpg
mkfifo folder/train/b/8.png
expect 2 "$ebb" train pictures.yaml --updates 1
has err.txt "8.png: neither a file nor a link to one"
rm folder/train/b/8.png
mkdir folder/train/b/more
expect 2 "$ebb" train pictures.yaml --updates 1
has err.txt "b/more: a folder in that of a class"
rmdir folder/train/b/more
mkdir folder/train/c
expect 2 "$ebb" train pictures.yaml --updates 1
has err.txt "train/c: a class without .jpg, .jpeg or .png files"
rmdir folder/train/c
: >folder/train/b/9.jpg
expect 1 "$ebb" data check pictures.yaml
has err.txt "9.jpg: byte 0: the file is empty"

# ---- messages
expect 2 "$ebb" train task.yaml --updates 1 --threads 0
has err.txt "option --threads"
expect 2 "$ebb" train task.yaml --updates 1 --budget 1MB5
grep -q 'yaml:1:' err.txt && fail "an option is reported as a line of the file: $(cat err.txt)"
has err.txt 'memory.budget: found "1MB5"'
expect 1 "$ebb" train task.yaml --updates 1 --budget 10KB
grep -qE 'the least it can run in is [0-9]+ bytes, [0-9.]+ (K|M)iB' err.txt || fail "no unit: $(cat err.txt)"
has err.txt "A smaller batch"
finish
