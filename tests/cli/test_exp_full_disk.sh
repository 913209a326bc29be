# A full disk below the checkpoints of trials is waited for: nothing fails, no restart is counted.
# $1 = the ebb program, $2 = source folder
. "$2/tests/cli/exp_common.sh"

mkdir disk
mount -t tmpfs -o size=8m none disk 2>/dev/null || { echo "skipped: a file system cannot be mounted here"; exit 0; }
trap 'umount "$work/disk"; clean_up' EXIT
mkdir trial
cat >trial/made.py <<'PY'
import ebb_client
class Trial(ebb_client.Trial):
    def __init__(self, session): pass
    def train_batch(self, batch): return {"loss": 1.0}
    def validate(self): return {"validation_loss": 1.0}
    def load(self, directory, is_own): pass
    def save(self, directory):
        with open(directory + "/weights", "wb") as f:
            f.write(bytes(1 << 18))
PY
cat >gpt.yaml <<YAML
entrypoint: ebb:language_model
data: {name: language, vocabulary: 40, sequence_length: 16, samples: 400, val_samples: 10}
model: {name: gpt2_124M, layers: 2, width: 32, heads: 2}
hyperparameters: {global_batch_size: 4}
opt: {name: AdamW, lr: 0.001}
searcher: {name: single, metric: validation_loss, max_steps: 2}
batches_per_step: 2
max_restarts: 0
checkpoint_storage: {type: shared_fs, host_path: $work/disk}
YAML
{ grep -v '^data\|^model\|^opt' gpt.yaml | sed 's/^entrypoint.*/entrypoint: made:Trial/'; } >python.yaml

for file in gpt python; do
    head -c 8150k /dev/zero >disk/filler
    timeout 200 "$ebb" run $file.yaml $([ $file = python ] && echo trial) --no-charts >out.txt 2>err.txt </dev/null &
    pid=$!
    for _ in $(seq 300); do
        grep -qs "waiting for room" "$EBB_STATE"/trials/*/log && break
        kill -0 "$pid" 2>/dev/null || break
        sleep 0.1
    done
    has <(cat "$EBB_STATE"/trials/*/log) "waiting for room"
    rm -f disk/filler
    wait "$pid" || { fail "$file: a full disk ended it"; tail -n 5 out.txt err.txt; }
    rm -rf "$EBB_STATE"/trials/*/log
done

# The disk of the state, filled by the checkpoints on it: said once, however often a page of the database can be written over.
mount -o remount,size=3m disk
rm -rf disk/* && mkdir small
cat >small/made.py <<'PY'
import os
import ebb_client
with ebb_client.connect() as ebb:
    for work in ebb.workloads():
        if work.is_train:
            for _ in work.batches():
                work.report(loss=1.0)
        elif work.is_validation:
            work.report(validation_loss=1.0)
        else:
            with open(work.directory + "/weights", "wb") as f:
                f.write(bytes(300000))
                os.fsync(f.fileno())
PY
cat >full.yaml <<YAML
entrypoint: [python3, made.py]
hyperparameters: {global_batch_size: 4}
searcher: {name: single, metric: validation_loss, max_steps: 6}
batches_per_step: 1
min_validation_period: 1
checkpoint_policy: all
max_restarts: 0
YAML
export EBB_STATE=$work/disk/state
timeout 200 "$ebb" run full.yaml small --no-charts >out.txt 2>err.txt </dev/null &
pid=$!
wait_for grep -q "can be written again" err.txt
sleep 5
same "warnings of a full disk" "$(grep -c "can be written again" err.txt)" 1
mount -o remount,size=8m disk
wait "$pid" || { fail "a full disk of the state ended it"; tail -n 5 out.txt err.txt; }
finish
