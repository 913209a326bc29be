# TensorBoard: event files of trials, read back byte by byte, and servers started over them (a stand-in for the program).
# $1 = the ebb program, $2 = source folder
. "$2/tests/cli/exp_common.sh"

cat >exp.yaml <<'YAML'
entrypoint: [python3, train.py]
batches_per_step: 3
reproducibility: {experiment_seed: 1}
hyperparameters: {global_batch_size: 4, learning_rate: {type: log, base: 10, minval: -2, maxval: 0}}
searcher: {name: random, metric: validation_error, max_steps: 2, max_trials: 20}
YAML
mkdir def && cp "$source_dir/examples/python-loop/train.py" def/

# Scalars of all event files below a folder, as "trial tag step value"; every checksum is verified.
cat >read.py <<'PY'
import os, struct, sys

def crc32c(data):
    crc = 0xffffffff
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82f63b78 if crc & 1 else 0)
    return crc ^ 0xffffffff

def masked(data):
    crc = crc32c(data)
    return ((crc >> 15 | crc << 17) + 0xa282ead8) & 0xffffffff

def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return value, at

def fields(data):
    at = 0
    while at < len(data):
        key, at = varint(data, at)
        kind = key & 7
        if kind == 0:
            value, at = varint(data, at)
        elif kind == 1:
            value, at = data[at:at + 8], at + 8
        elif kind == 5:
            value, at = data[at:at + 4], at + 4
        else:
            size, at = varint(data, at)
            value, at = data[at:at + size], at + size
        yield key >> 3, value

for folder, _, names in sorted(os.walk(sys.argv[1])):
    for name in sorted(names):
        assert name.startswith("events.out.tfevents."), name
        data = open(os.path.join(folder, name), "rb").read()
        at = count = 0
        while at < len(data):
            size, = struct.unpack_from("<Q", data, at)
            assert struct.unpack_from("<I", data, at + 8)[0] == masked(data[at:at + 8])
            record = data[at + 12:at + 12 + size]
            assert struct.unpack_from("<I", data, at + 12 + size)[0] == masked(record)
            event = dict(fields(record))
            if count == 0:
                assert event[3] == b"brain.Event:2"
            else:
                assert struct.unpack("<d", event[1])[0] > 1.5e9
                for _, value in fields(event[5]):
                    scalar = dict(fields(value))
                    print(os.path.basename(folder), scalar[1].decode(), event[2], "%.6g" % struct.unpack("<f", scalar[2]))
            at += 16 + size
            count += 1
PY

# ---- more trials than files are kept open
expect 0 "$ebb" run exp.yaml def --no-charts
expect 0 "$ebb" experiment describe 1 --json
cp out.txt whole.json
folder=$(field "x['experiment']['tensorboard_path']")
[[ $folder == "$EBB_STATE"/checkpoints/*/tensorboard/experiment/1 ]] || fail "folder is $folder"
python3 read.py "$folder" | sort >got.txt || fail "event files cannot be read"
python3 - <<'PY' | sort >want.txt
import json, struct
x = json.load(open("whole.json"))
single = lambda v: "%.6g" % struct.unpack("<f", struct.pack("<f", v))
for t in x["trials"]:
    for w in t["workloads"]:
        for name, value in w["metrics"]["avg_metrics"].items():
            print(t["trial"]["id"], "training/" + name, 3 * w["step_id"], single(value))
        if w["validation"]:
            for name, value in w["validation"]["metrics"]["validation_metrics"].items():
                print(t["trial"]["id"], "validation/" + name, 3 * w["step_id"], single(value))
PY
checks=$((checks + 1))
[ "$(wc -l <want.txt)" -ge 60 ] || fail "only $(wc -l <want.txt) scalars expected"
cmp -s got.txt want.txt || { fail "event files differ from what was measured"; diff got.txt want.txt | head; }

# ---- a place of their own
sed "s#^batches#tensorboard_storage: {type: shared_fs, host_path: $work/tb}\nbatches#; s/max_trials: 20/max_trials: 1/" exp.yaml >own.yaml
expect 0 "$ebb" run own.yaml def --no-charts
same "files in their own place" "$(python3 read.py "$work/tb" | wc -l)" 3
expect 2 "$ebb" run own.yaml def --config 'tensorboard_storage={type: s3, bucket: b, endpoint_url: "http://127.0.0.1:9", access_key: a, secret_key: b}'
has err.txt "tensorboard_storage: s3: PUT"

# ---- without the program
empty=$work/empty
mkdir "$empty"
expect 1 env PATH="$empty" "$ebb" tensorboard start 1
has err.txt "pip install tensorboard"
has err.txt "$folder"
has err.txt "ebb experiment charts 1"
expect 2 "$ebb" tensorboard start
expect 2 "$ebb" tensorboard start one
expect 2 "$ebb" tensorboard start 1 --port 70000
expect 1 "$ebb" tensorboard start 99
expect 1 "$ebb" tensorboard start --trials 99
expect 1 "$ebb" tensorboard kill 1
expect 0 "$ebb" tensorboard list

# ---- with a stand-in
mkdir bin
printf '#!/bin/bash\necho "$@" >%s/args.txt\nexec python3 -m http.server --bind 127.0.0.1 "${@: -1}"\n' "$work" >bin/tensorboard
chmod +x bin/tensorboard
export PATH=$work/bin:$PATH
port=$(python3 -c "import socket; s = socket.socket(); s.bind(('127.0.0.1', 0)); print(s.getsockname()[1])")
expect 0 "$ebb" tensorboard start 1 --port "$port"
has out.txt "Started tensorboard 1: http://127.0.0.1:$port/"
same "arguments" "$(cat args.txt)" "--logdir $folder --host 127.0.0.1 --port $port"
expect 1 "$ebb" tensorboard start 1 --port "$port"
has err.txt "in use"
rm args.txt
expect 0 "$ebb" tensorboard start 1,2 --trials 3 --json
pid=$(field "x['pid']")
has args.txt "--logdir_spec experiment-1:$folder,experiment-2:$work/tb"
has args.txt ",trial-3:$folder/trial/3"
expect 0 "$ebb" tensorboard --csv
same "servers" "$(grep -c RUNNING out.txt)" 2
kill "$pid"
is_gone() { ! [[ $(cat "/proc/$1/stat" 2>/dev/null) =~ ") "[^ZX] ]]; } # or waiting for a parent that does not look
wait_for is_gone "$pid"
expect 0 "$ebb" tensorboard list --json
same "the one that was killed" "$(field "[t['running'] for t in x['tensorboards']]")" "[True, False]"
expect 0 "$ebb" tensorboard kill 1
expect 0 "$ebb" tensorboard kill 2
expect 0 "$ebb" tensorboard list --json
same "servers after kill" "$(field "x['tensorboards']")" "[]"
printf '#!/bin/sh\necho no such flag >&2\nexit 3\n' >bin/tensorboard
expect 1 "$ebb" tensorboard start 1
has err.txt "ended at once (status 3): no such flag"

# ---- gone with the experiment
expect 0 "$ebb" experiment delete 1 --yes
[ ! -e "$folder" ] || fail "$folder is still there"
expect 0 "$ebb" experiment delete 2 --yes
same "files after delete" "$(find "$work/tb" -type f | wc -l)" 0

finish
