# ebb experiment, trial, checkpoint, template: every verb, with and without a running master.
# $1 = the ebb program, $2 = source folder
. "$2/tests/cli/exp_common.sh"

cat >exp.yaml <<'YAML'
description: "a line: with verbs"
labels: [first]
entrypoint: [python3, train.py]
batches_per_step: 3
min_checkpoint_period: 1
hyperparameters: {global_batch_size: 4, learning_rate: {type: log, base: 10, minval: -2, maxval: 0}}
searcher: {name: random, metric: validation_error, max_steps: 2, max_trials: 2}
YAML
mkdir def && cp "$source_dir/examples/python-loop/train.py" def/
mkdir def/skip && echo x >def/skip/large && echo "skip/" >def/.ebbignore

# ---- nothing there yet
expect 0 "$ebb" experiment list
expect 0 "$ebb" e
expect 0 "$ebb" experiment list --json
same "experiments" "$(field "x['total']")" 0
expect 1 "$ebb" experiment describe 1
has err.txt "no experiment 1"
expect 1 "$ebb" trial describe 7
expect 2 "$ebb" experiment describe one
has err.txt "ebb experiment list"

# ---- create without a master, then run
expect 0 "$ebb" experiment create exp.yaml def --paused
has out.txt "Created experiment 1"
expect 0 "$ebb" experiment create exp.yaml def --json
same "id" "$(field "x['id']")" 2
has err.txt "ebb run --resume 2"
expect 0 "$ebb" experiment list --csv
same "lines of CSV" "$(wc -l <out.txt)" 3
has out.txt "PAUSED"
has out.txt "a line: with verbs"
expect 0 "$ebb" experiment pause 2
expect 0 "$ebb" run --resume 1 --no-charts
has out.txt "COMPLETED"
expect 0 "$ebb" experiment wait 1 --polling-interval 0.1
has out.txt "Experiment 1 terminated with state COMPLETED"
expect 0 "$ebb" run --resume 1 --no-charts # it has ended: only said again
has out.txt "Experiment 1 COMPLETED: 2 trials"

# ---- reading
expect 0 "$ebb" experiment describe 1,2 --metrics
has out.txt "Training Metric: loss"
has out.txt "Validation Metric: validation_error"
expect 0 "$ebb" experiment describe 1 --json
same "trials" "$(field "len(x['trials'])")" 2
same "workloads" "$(field "len(x['trials'][0]['workloads'])")" 2
expect 0 "$ebb" experiment describe 1 --outdir tables --metrics
[ -s tables/experiments.csv ] && [ -s tables/trials.csv ] && [ -s tables/steps.csv ] || fail "tables are missing"
same "rows of steps.csv" "$(wc -l <tables/steps.csv)" 5
expect 2 "$ebb" experiment describe 1 --json --csv
expect 0 "$ebb" experiment lt 1
has out.txt "learning_rate"
expect 0 "$ebb" experiment lt 1 --filter-state COMPLETED --json
same "completed trials" "$(field "len(x['trials'])")" 2
expect 0 "$ebb" experiment lt 1 --filter-state ERROR,ACTIVE --json
same "failed trials" "$(field "len(x['trials'])")" 0
expect 2 "$ebb" experiment lt 1 --filter-state FAILED
expect 2 "$ebb" experiment list --filter-state FAILED
has err.txt "COMPLETED"
expect 0 "$ebb" experiment lc 1 --best 1 --download-dir down
has out.txt "COMPLETED"
[ -s down/exp-1-trial-*/line.json ] || fail "list-checkpoints downloaded nothing"
expect 0 "$ebb" experiment config 1
cp out.txt again.yaml
expect 0 "$ebb" experiment validate again.yaml
expect 0 "$ebb" experiment config 1 --json
same "max_trials in config" "$(field "x['searcher']['max_trials']")" 2
expect 0 "$ebb" experiment download-model-def 1 --output-dir model
has out.txt "model/exp1_a line with verbs_model_def.tar.gz"
same "packed files" "$(tar tzf "model/exp1_a line with verbs_model_def.tar.gz" | sed 's/^\.\///' | sort | tr '\n' ' ')" "train.py "
expect 0 "$ebb" experiment logs 1
if command -v rsvg-convert >/dev/null; then
    expect 0 "$ebb" experiment charts 1 -o charts
    [ -s charts/learning-curves.png ] || fail "no charts"
    expect 1 "$ebb" experiment charts 2 -o charts2
fi

# ---- trials and checkpoints
expect 0 "$ebb" experiment list-trials 1 --json
trial=$(field "x['trials'][0]['id']")
expect 0 "$ebb" trial describe "$trial" --metrics
has out.txt "Step Metrics"
has out.txt "loss "
expect 0 "$ebb" trial logs "$trial" --tail 5
expect 0 "$ebb" trial download "$trial" --latest -q
same "where the download went" "$(cat out.txt)" "checkpoints/trial_$trial/step_2"
[ -s "checkpoints/trial_$trial/step_2/line.json" ] || fail "trial download copied nothing"
expect 0 "$ebb" trial download "$trial" --best --metric-name validation_error --smaller-is-better false -o worst
find "$EBB_STATE/checkpoints" -name line.json >lines.txt
while read -r file; do cp "$file" "$file.safe" && printf X | dd of="$file" bs=1 conv=notrunc status=none; done <lines.txt
expect 2 "$ebb" trial download "$trial" --latest -o spoiled
has err.txt "XXH3 of line.json is not the manifest's"
while read -r file; do mv "$file.safe" "$file"; done <lines.txt
expect 1 "$ebb" trial download "$trial" --uuid 00000000-0000-4000-8000-000000000000
expect 2 "$ebb" trial download "$trial"
expect 1 "$ebb" trial kill "$trial"
expect 0 "$ebb" checkpoint list 1 --json
uuid=$(field "x['checkpoints'][0]['uuid']")
count=$(field "len([c for c in x['checkpoints'] if c['state'] == 'COMPLETED'])")
expect 0 "$ebb" checkpoint describe "$uuid"
has out.txt "line.json"
expect 0 "$ebb" checkpoint download "$uuid" copy
[ -s copy/line.json ] && [ -s copy/metadata.json ] || fail "checkpoint download copied nothing"
expect 0 "$ebb" checkpoint download "$trial" 2 copy2
expect 1 "$ebb" checkpoint delete "$uuid"
expect 0 "$ebb" checkpoint delete "$uuid" --yes
expect 1 "$ebb" checkpoint download "$uuid" copy3
has err.txt "DELETED"
expect 0 "$ebb" checkpoint list 1 --json
same "checkpoints after delete" "$(field "len([c for c in x['checkpoints'] if c['state'] == 'COMPLETED'])")" $((count - 1))

# ---- changing
expect 0 "$ebb" experiment label add 1 second
expect 0 "$ebb" experiment label remove 1 first
expect 0 "$ebb" experiment set description 1 "another name"
expect 0 "$ebb" experiment set weight 1 2.5
expect 0 "$ebb" experiment set max-slots 1 3
expect 0 "$ebb" experiment set max-slots 1 none
expect 0 "$ebb" experiment list --json --label second
same "labels" "$(field "x['experiments'][0]['labels']")" "['second']"
same "description" "$(field "x['experiments'][0]['description']")" "another name"
same "weight" "$(field "x['experiments'][0]['weight']")" 2.5
expect 2 "$ebb" experiment set weight 1 heavy
expect 2 "$ebb" experiment set size 1 2
expect 2 "$ebb" experiment set gc-policy 1 --save-trial-best 0
expect 1 "$ebb" experiment set gc-policy 1 --save-experiment-best 0 --save-trial-best 0 --save-trial-latest 0
has err.txt "will be removed"
expect 0 "$ebb" experiment set gc-policy 1 --save-experiment-best 0 --save-trial-best 0 --save-trial-latest 0 --yes
expect 0 "$ebb" checkpoint list 1 --json
same "checkpoints after gc" "$(field "len([c for c in x['checkpoints'] if c['state'] == 'COMPLETED'])")" 0
same "directories after gc" "$(find "$EBB_STATE/checkpoints" -mindepth 2 -maxdepth 2 -name manifest.json | wc -l)" 0
expect 1 "$ebb" experiment activate 1
has err.txt "illegal transition"
expect 1 "$ebb" experiment archive 2
expect 0 "$ebb" experiment archive 1
expect 0 "$ebb" experiment list
grep -q "another name" out.txt && fail "an archived experiment is in the list"
expect 0 "$ebb" experiment list --all
has out.txt "another name"
expect 0 "$ebb" experiment unarchive 1
expect 1 "$ebb" experiment delete 1
has err.txt "Nothing was deleted"
expect 0 "$ebb" experiment delete 1 --yes
expect 1 "$ebb" experiment describe 1
expect 0 "$ebb" experiment cancel 2
expect 1 "$ebb" experiment wait 2 --polling-interval 0.1
has out.txt "state CANCELED"

# ---- files that cannot be removed: said, not claimed; later tried again
expect 0 "$ebb" run exp.yaml def --no-charts --config "checkpoint_storage={type: shared_fs, host_path: $work/store}" --json
id=$(tail -n 1 out.txt | python3 -c "import json,sys; print(json.load(sys.stdin)['experiment']['id'])")
expect 0 "$ebb" checkpoint list "$id" --json
uuid=$(field "[c['uuid'] for c in x['checkpoints'] if c['state'] == 'COMPLETED'][0]")
mv store away && touch store
expect 1 "$ebb" checkpoint delete "$uuid" --yes
has err.txt "is not removed: cannot open $work/store"
expect 1 "$ebb" experiment set gc-policy "$id" --save-experiment-best 0 --save-trial-best 0 --save-trial-latest 0 --yes
has err.txt "could not be removed: cannot open $work/store"
expect 1 "$ebb" experiment gc "$id"
has err.txt "could not be removed"
expect 1 "$ebb" experiment delete "$id" --yes
has err.txt "DELETE_FAILED: cannot open $work/store"
rm store && mv away store
expect 0 "$ebb" experiment gc "$id"
expect 0 "$ebb" experiment delete "$id" --yes
expect 1 "$ebb" experiment describe "$id"
same "checkpoints left" "$(find store -name manifest.json | wc -l)" 0

# ---- what the master has; without one, what would be
expect 0 "$ebb" slot list
has err.txt "no master runs"
expect 0 "$ebb" task list --json
same "tasks" "$(field "x['tasks']")" "[]"
expect 0 "$ebb" agent list --csv
expect 0 "$ebb" master info --json
same "state directory" "$(field "x['state_dir']")" "$EBB_STATE"
expect 1 "$ebb" slot disable 0
has err.txt "no master runs"
expect 2 "$ebb" master info --csv

# ---- templates
echo 'max_restarts: 1' >t.yaml
echo 'max_restart: 1' >bad.yaml
expect 0 "$ebb" template set small t.yaml
expect 0 "$ebb" template list
has out.txt "max_restarts"
expect 0 "$ebb" template describe small
same "template" "$(cat out.txt)" "max_restarts: 1"
expect 0 "$ebb" experiment create exp.yaml def --paused --template small --json
id=$(field "x['id']")
expect 0 "$ebb" experiment config "$id" --json
same "max_restarts from the template" "$(field "x['max_restarts']")" 1
expect 0 "$ebb" template remove small
expect 1 "$ebb" template describe small
expect 2 "$ebb" experiment create exp.yaml def --paused --template small
expect 0 "$ebb" experiment kill "$id"

# ---- git
git init -q repo && cp exp.yaml def/train.py repo/
git -C repo -c user.name=A -c user.email=a@b add . && git -C repo -c user.name=A -c user.email=a@b commit -qm x
expect 2 "$ebb" experiment create repo/exp.yaml --git --paused
has err.txt "upstream"
git clone -q repo clone
expect 0 "$ebb" experiment create clone/exp.yaml --git --paused --json
expect 0 "$ebb" experiment describe "$(field "x['id']")" --json
same "commit" "$(field "x['experiment']['git_commit']")" "$(git -C clone rev-parse HEAD)"
echo >>clone/exp.yaml
expect 2 "$ebb" experiment create clone/exp.yaml --git --paused
has err.txt "commit them first"

finish
