# The trial's side of the protocol: `ebb worker` and the Python client against a master made for tests, one fault at a time.
# $1 = the ebb program, $2 = source folder
set -u
ebb=$(realpath "$1")
source_dir=$2
failed=0
checks=0

command -v python3 >/dev/null || { echo "skipped: no python3"; exit 0; }

fail() {
    echo "FAILED: $*"
    failed=1
}

work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
make -s -C "$source_dir/examples/c-trial" OUT="$work" >make.txt 2>&1 || { cat make.txt; fail "the example does not build"; }
cp "$source_dir"/examples/python-class/model.py "$source_dir"/examples/python-loop/train.py .
export PYTHONPATH=$source_dir/clients/python PYTHONDONTWRITEBYTECODE=1

hparams='{"global_batch_size": 8, "hidden": 8, "learning_rate": 0.1, "momentum": 0.9, "decay": 0.001}'
trial_c=("$ebb" worker libmodel.so:trial)
trial_class=(python3 -m ebb_client model:RingTrial)
trial_loop=(python3 train.py)

# serve WORK FAULT NAME [OPTION...]: leaves answers in out.txt and the trial's words in err.txt
serve() {
    local work=$1 fault=$2
    local -n command=trial_$3
    shift 3
    checks=$((checks + 1))
    timeout 240 python3 "$source_dir/tests/cli/fake_master.py" "$work" --fault "$fault" --hparams "$hparams" --store "$PWD/store" \
        "$@" -- "${command[@]}" >out.txt 2>err.txt || { cat err.txt; fail "fake master: $work $fault ${command[*]}"; }
}

last() { tail -n 1 out.txt | python3 -c "import json,sys; print(json.load(sys.stdin)['$1'])"; }

for name in c class loop; do
    case $name in
    c) faults=("" drop noack twice garbage) ;;
    class) faults=("" drop noack) ;;
    loop) faults=("" garbage) ;;
    esac
    for fault in "${faults[@]}"; do
        rm -rf store
        serve SVSCT "$fault" $name
        [ "$(last exit)" = 0 ] || fail "$name with fault '$fault' leaves with $(last exit)"
        [ "$(grep -c '"DONE"' out.txt)" = 4 ] || fail "$name with fault '$fault': not four answers"
        [ "$(ls -A store)" = 00000000-0000-4000-8000-000000000004 ] || fail "$name with fault '$fault': store holds $(ls -A store)"
        grep -q '"resources"' out.txt || fail "$name: the contents of the checkpoint are not told"
    done

    # One step more from its own checkpoint gives the loss of an uninterrupted run.
    checkpoint=$PWD/kept-$name
    rm -rf "$checkpoint"
    mv store/* "$checkpoint"
    if [ $name != loop ]; then
        serve ST "" $name --checkpoint "$checkpoint,2,1"
        grep '"loss"' out.txt | grep -o '"avg_metrics":{[^}]*}\|"avg_metrics": {[^}]*}' >resumed.txt
        serve SSST "" $name
        grep '"step_id": *3' out.txt | grep -o '"avg_metrics":{[^}]*}\|"avg_metrics": {[^}]*}' | head -1 >straight.txt
        cmp -s resumed.txt straight.txt || fail "$name: resumed $(cat resumed.txt), straight $(cat straight.txt)"
    fi

    # Another trial's checkpoint: steps begin at 1.
    serve SVT "" $name --checkpoint "$checkpoint,2,99"
    [ "$(grep -c '"step_id": *1' out.txt)" = 2 ] || fail "$name: a warm start does not begin at step 1"

    EBB_PATIENCE_S=0.5 serve SVSCT gone $name
    [ "$(last exit)" = 75 ] || fail "$name: without master leaves with $(last exit)"
    [ $name != loop ] || continue

    # A checkpoint that is not there is the trial's failure, told in words.
    serve SVT "" $name --checkpoint "$PWD/nowhere,2,1"
    [ "$(last exit)" = 1 ] || fail "$name: missing checkpoint leaves with $(last exit)"
    grep -q FAILED out.txt && grep -q nowhere out.txt || fail "$name: the failure does not name the checkpoint"

    serve SVSCT refused $name
    [ "$(last exit)" = 75 ] || fail "$name: refused, leaves with $(last exit)"
    serve SVSCT term $name
    [ "$(last exit)" = 75 ] || fail "$name: SIGTERM leaves with $(last exit)"
done

# Metrics that are no numbers travel, too, and average to null; rows that no message could hold stay behind.
python3 - <<'PY' || fail "metrics of the Python client"
import ebb_client.session as s
class Array:
    def tolist(self): return [1.0, float("nan")]
rows = [{"loss": 1, "text": "a", "list": [1, {"x": float("inf")}], "array": Array(), "none": None, "some": 3 if i else None} for i in range(3)]
work = s.Workload(type("S", (), {"job": None, "is_warned": False})(), {"workload": {"kind": "RUN_STEP", "step_id": 1, "num_batches": 3}})
work._rows = rows
result = work.result()
assert result["avg_metrics"] == {"loss": 1.0, "text": None, "list": None, "array": None, "none": None, "some": 3.0}, result
assert result["batch_metrics"][0] == {"loss": 1.0, "text": "a", "list": [1.0, {"x": "Infinity"}], "array": [1.0, "NaN"], "none": None, "some": None}, result
s.BATCH_METRICS_MAX = 100
assert work.result()["batch_metrics"] == []
work._rows[1]["loss"] = object()
s.BATCH_METRICS_MAX = 1 << 20
try:
    work.result()
    raise SystemExit("an object was taken as a metric")
except s.Failed as error:
    assert "'loss'" in str(error), error
PY
checks=$((checks + 1))

# Wrong hyperparameters are told with their section; a sample that can never work is marked so.
hparams='{"global_batch_size": 8, "hidden": 8, "learning_rate": 0.1}'
serve SVT "" c
grep -q "section 'hyperparameters' has no 'momentum'" out.txt || fail "a missing hyperparameter is not named"
hparams='{"global_batch_size": 8, "hidden": 100000, "learning_rate": 0.1, "momentum": 0}'
serve SVT "" c
grep -q INVALID_HP out.txt || fail "an impossible sample is not marked"

# By hand it says what it is for.
env -u EBB_SOCKET "$ebb" worker libmodel.so:trial 2>err.txt && fail "worker by hand succeeds"
grep -q "ebb run" err.txt || fail "worker by hand does not say what to do"
"$ebb" worker libmodel.so:nothing 2>err.txt
grep -q "exports no symbol 'nothing'" err.txt || fail "unknown symbol: $(cat err.txt)"
"$ebb" worker libnone.so:trial 2>err.txt
grep -q "cannot load 'libnone.so'" err.txt || fail "unknown library: $(cat err.txt)"

[ "$failed" -eq 0 ] && echo "$checks trials, all checks passed"
exit "$failed"
