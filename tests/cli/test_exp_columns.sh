# Tables of experiments: every column by name and order, forms of times, progress and empty cells, both forms of a table.
# $1 = the ebb program, $2 = source folder
. "$2/tests/cli/exp_common.sh"

cat >exp.yaml <<'YAML'
description: columns
labels: [b, a]
entrypoint: [python3, train.py]
batches_per_step: 3
min_checkpoint_period: 1
hyperparameters: {global_batch_size: 4, learning_rate: 0.1}
searcher: {name: random, metric: validation_error, max_steps: 2, max_trials: 1}
YAML
mkdir def && cp "$source_dir/examples/python-loop/train.py" def/
expect 0 "$ebb" run exp.yaml def --no-charts
expect 0 "$ebb" experiment create exp.yaml def --paused

# columns WORDS... : the headers of the first table of out.txt, as CSV
columns() { head -n "${2:-1}" out.txt | tail -n 1 | tr -d '\r'; }
expect 0 "$ebb" experiment list --csv
same "list" "$(columns)" "ID,Owner,Description,State,Progress,Start Time,End Time"
same "newest first" "$(tail -n +2 out.txt | cut -d, -f1 | tr '\n' ' ')" "2 1 "
same "progress of a paused one, empty end" "$(sed -n 2p out.txt | cut -d, -f5,7 | tr -d '\r')" "0.0%,"
same "no progress of an ended one" "$(sed -n 3p out.txt | cut -d, -f4,5)" "COMPLETED,"
sed -n 3p out.txt | cut -d, -f6,7 | tr -d '\r' | grep -qE '^20[0-9-]{8} [0-9:]{8}\+0000,20[0-9-]{8} [0-9:]{8}\+0000$' || fail "times: $(sed -n 3p out.txt)"
expect 0 "$ebb" experiment list --all --csv
same "list --all" "$(columns)" "ID,Owner,Description,State,Progress,Start Time,End Time,Archived"

expect 0 "$ebb" experiment describe 1 --csv --metrics
same "describe: experiments" "$(grep -A1 '^Experiment:' out.txt | tail -n 1 | tr -d '\r')" \
    "Experiment ID,State,Progress,Start Time,End Time,Description,Archived,Labels"
same "describe: labels" "$(grep -A2 '^Experiment:' out.txt | tail -n 1 | tr -d '\r' | sed 's/.*columns,//')" 'false,"b, a"'
same "describe: trials" "$(grep -A1 '^Trials:' out.txt | tail -n 1 | tr -d '\r')" \
    "Trial ID,Experiment ID,State,Start Time,End Time,H-Params"
same "describe: steps" "$(grep -A1 '^Steps:' out.txt | tail -n 1 | tr -d '\r')" \
    "Trial ID,Step ID,State,Start Time,End Time,Training Metric: loss,Checkpoint State,Checkpoint Start Time,Checkpoint End Time,Validation State,Validation Start Time,Validation End Time,Validation Metric: validation_error"
expect 0 "$ebb" experiment describe 1 --csv
same "describe without metrics" "$(grep -A1 '^Steps:' out.txt | tail -n 1 | tr -d '\r')" \
    "Trial ID,Step ID,State,Start Time,End Time,Checkpoint State,Checkpoint Start Time,Checkpoint End Time,Validation State,Validation Start Time,Validation End Time"
expect 0 "$ebb" experiment list-trials 1 --csv
same "list-trials" "$(columns | cut -d, -f1-6)" "Trial ID,State,H-Params,Start Time,End Time,# of Steps"
expect 0 "$ebb" experiment list-checkpoints 1 --csv
same "list-checkpoints" "$(columns)" "Trial ID,Step ID,State,Validation Metric,UUID,Resources,Size"
has out.txt '"code/train.py, line.json, metadata.json, manifest.json"'
expect 0 "$ebb" trial describe 1 --csv --metrics
same "trial describe" "$(columns | cut -d, -f1-5)" "Experiment ID,State,H-Params,Start Time,End Time"
same "its steps" "$(grep -A1 '^Steps:' out.txt | tail -n 1 | tr -d '\r')" \
    "Step #,State,Start Time,End Time,Checkpoint,Checkpoint UUID,Validation,Validation Metrics,Step Metrics"
expect 1 "$ebb" experiment set gc-policy 1 --save-experiment-best 0 --save-trial-best 0 --save-trial-latest 0
same "gc-policy" "$(head -n 1 out.txt | sed 's/ *| */,/g; s/^ *//; s/ *$//')" "Trial ID,Step ID,State,Validation Metric (validation_error),UUID,Resources"
has err.txt "1 checkpoints with and 0 without a validation"

# ---- the same as people see it
expect 0 "$ebb" experiment list
same "headers" "$(head -n 1 out.txt | sed 's/ *| */,/g; s/^ *//; s/ *$//')" "ID,Owner,Description,State,Progress,Start Time,End Time"
sed -n 2p out.txt | grep -qE '^-+(\+-+){6}$' || fail "no rule below the headers: $(sed -n 2p out.txt)"
same "blanks at line ends" "$(grep -c ' $' out.txt)" 0
expect 0 "$ebb" preview-search exp.yaml
grep -qE '^ +Trials \| +Steps \| Breakdown' out.txt || fail "preview-search has other columns"
grep -qE '^ +1 \| +2 \| 2 x step, 1 x validation' out.txt || fail "preview-search: $(tail -n 2 out.txt)"

finish
