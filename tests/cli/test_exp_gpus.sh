# GPUs of the machine become slots: each trial sees that of its own. The driver is one of the test's: it counts three.
# $1 = the ebb program, $2 = source folder
. "$2/tests/cli/exp_common.sh"
command -v cc >/dev/null || { echo "skipped: no C compiler"; exit 0; }

mkdir driver loop
cat >driver/cuda.c <<'C'
#include <stddef.h>
#include <string.h>
#include <stdlib.h>
/* As the real one: what CUDA_VISIBLE_DEVICES leaves of three. */
static int visible(void)
{
    const char *given = getenv("CUDA_VISIBLE_DEVICES");
    int n = given != NULL && *given != '\0';
    for (const char *c = given != NULL ? given : ""; *c != '\0'; c++)
        n += *c == ',';
    return given != NULL ? n : 3;
}
int cuInit(unsigned flags) { return (int)flags; }
int cuDeviceGetCount(int *count) { *count = visible(); return 0; }
int cuDeviceGetName(char *name, int size, int device) { (void)device; memset(name, 0, (size_t)size); return 0; }
int cuDeviceTotalMem_v2(size_t *bytes, int device) { (void)device; *bytes = 1; return 0; }
C
cc -shared -fPIC -o driver/libcuda.so.1 driver/cuda.c || { echo "skipped: the driver of the test does not build"; exit 0; }
export LD_LIBRARY_PATH=$work/driver${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
unset CUDA_VISIBLE_DEVICES

# Three trials beside each other: each waits until all have said which GPU they see.
cat >loop/train.py <<'PY'
import os, time, ebb_client
with ebb_client.connect() as ebb:
    folder, want = ebb.hparam("folder"), ebb.hparam("want")
    with open(os.path.join(folder, str(ebb.job.trial_id)), "w") as f:
        f.write(os.environ["CUDA_VISIBLE_DEVICES"] + " " + os.environ.get("SIDE", "none") + "\n")
    while len(os.listdir(folder)) < want:
        time.sleep(0.02)
        ebb.link.check()
    for work in ebb.workloads():
        if work.is_train:
            for batch in work.batches():
                work.report(loss=1.0)
        elif work.is_validation:
            work.report(error=1.0)
        else:
            open(work.directory + "/x", "w").close()
PY
cat >exp.yaml <<YAML
entrypoint: [python3, train.py]
batches_per_step: 1
max_restarts: 0
environment: {environment_variables: {cpu: [SIDE=cpu], gpu: [SIDE=gpu]}}
hyperparameters: {global_batch_size: 1, folder: $work/seen, want: 3, x: {type: double, minval: 0, maxval: 1}}
searcher: {name: random, metric: error, max_steps: 1, max_trials: 3}
YAML
seen() { # seen WANTED [OPTION...]: what the trials saw, sorted
    local wanted=$1
    shift
    rm -rf seen && mkdir seen
    expect 0 "$ebb" run exp.yaml loop --no-charts "$@"
    same "GPUs of $*" "$(sort -m seen/* | sort | tr '\n' ',')" "$wanted"
}
seen "0 gpu,1 gpu,2 gpu,"
seen "0 gpu,1 gpu," --slots 2 --config searcher.max_trials=2 --config hyperparameters.want=2
seen "0 gpu,0 gpu,1 gpu,1 gpu,2 gpu," --slots 5 --config searcher.max_trials=5 --config hyperparameters.want=5
CUDA_VISIBLE_DEVICES=GPU-a,7 seen "7 gpu,GPU-a gpu," --config searcher.max_trials=2 --config hyperparameters.want=2
CUDA_VISIBLE_DEVICES= seen " cpu," --config searcher.max_trials=1 --config hyperparameters.want=1

# master.yaml says which, and none.
echo "gpus: ['2']" >"$EBB_STATE/master.yaml"
seen "2 gpu," --config searcher.max_trials=1 --config hyperparameters.want=1
echo "gpus: none" >"$EBB_STATE/master.yaml"
seen " cpu," --config searcher.max_trials=1 --config hyperparameters.want=1
rm "$EBB_STATE/master.yaml"

# The slot's business: refused where slots are GPUs, taken where they are not.
expect 2 "$ebb" run exp.yaml loop --config 'environment={environment_variables: [CUDA_VISIBLE_DEVICES=1]}'
has err.txt "environment.environment_variables: found CUDA_VISIBLE_DEVICES=1"
CUDA_VISIBLE_DEVICES= seen "1 none," --config 'environment={environment_variables: [CUDA_VISIBLE_DEVICES=1]}' --config searcher.max_trials=1 --config hyperparameters.want=1
finish
