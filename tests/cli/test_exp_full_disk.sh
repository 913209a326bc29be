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
finish
