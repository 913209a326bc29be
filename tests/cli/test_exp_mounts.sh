# bind_mounts: read-only all the way down, made where they are missing, and never outside the working directory.
# $1 = the ebb program, $2 = source folder
. "$2/tests/cli/exp_common.sh"

mkdir -p data/deep loop && echo hello >data/file && echo below >data/deep/file
mount -t tmpfs -o size=1m none data/deep 2>/dev/null || { echo "skipped: a file system cannot be mounted here"; exit 0; }
trap 'umount "$work/data/deep"; clean_up' EXIT
echo below >data/deep/file
cat >loop/train.py <<'PY'
import os, sys, ebb_client
for name in sys.argv[1:]: # +FILE is there, -FILE cannot be written
    if name[0] == "+":
        open(name[1:]).read()
    else:
        try:
            open(name[1:], "a").close()
        except OSError:
            continue
        raise SystemExit(name[1:] + " can be written")
with ebb_client.connect() as ebb:
    for work in ebb.workloads():
        if work.is_train:
            for batch in work.batches():
                work.report(loss=1.0)
        elif work.is_validation:
            work.report(error=1.0)
        else:
            open(work.directory + "/x", "w").close()
PY
mounted() { # mounted CODE MOUNTS CHECK...
    local code=$1 mounts=$2
    shift 2
    cat >exp.yaml <<YAML
entrypoint: [python3, train.py$(printf ', "%s"' "$@")]
batches_per_step: 1
max_restarts: 0
hyperparameters: {global_batch_size: 1}
searcher: {name: single, metric: error, max_steps: 1}
bind_mounts: [$mounts]
YAML
    expect "$code" "$ebb" run exp.yaml loop --no-charts
}
mounted 0 "{host_path: $work/data, container_path: in, read_only: true}" +in/file +in/deep/file -in/file -in/new -in/deep/file -in/deep/new
mounted 0 "{host_path: $work/data, container_path: in}" +in/file +in/deep/file
mounted 0 "{host_path: $work/data/file, container_path: a/b/c, read_only: true}" +a/b/c -a/b/c
mounted 0 "{host_path: $work/data, container_path: ./a//b/}" +a/b/file
for bad in x/.. ../../../esc a/../../b .. ./..; do
    mounted 2 "{host_path: $work/data, container_path: $bad}" +x
    has err.txt "bind_mounts[0].container_path: found \"$bad\""
done
same "folders left in the state directory" "$(find "$EBB_STATE" -name esc | wc -l)" 0
mounted 2 "{host_path: $work/data, container_path: $work/nowhere/x}" +x
has err.txt "nowhere/x is not there: make it"
mkdir elsewhere
# A link in the working directory is not followed: a trial that is started again finds one that it has made itself.
cat >loop/link.py <<'PY'
import os, sys
if os.path.isdir("in"):
    os.rmdir("in")
    os.symlink(sys.argv[1], "in")
raise SystemExit(1)
PY
cat >exp.yaml <<YAML
entrypoint: [python3, link.py, "$work/elsewhere"]
max_restarts: 1
hyperparameters: {global_batch_size: 1}
searcher: {name: single, metric: error, max_steps: 1}
bind_mounts: [{host_path: $work/data, container_path: in/made}]
YAML
expect 1 "$ebb" run exp.yaml loop --no-charts
same "folders made through a link" "$(ls elsewhere | wc -l)" 0
finish
