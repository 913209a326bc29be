# Whoever watches an experiment whose master ends hears its result all the same.
# $1 = the ebb program, $2 = source folder
. "$2/tests/cli/exp_common.sh"

mkdir loop && cp "$source_dir/examples/python-loop/train.py" loop/
cat >exp.yaml <<'YAML'
entrypoint: [python3, train.py]
batches_per_step: 5
hyperparameters: {global_batch_size: 4, learning_rate: 0.5}
searcher: {name: single, metric: validation_error, max_steps: 1}
YAML
expect 0 "$ebb" run exp.yaml loop --no-charts

# A master that answers the first requests, and then hangs up on somebody who has asked, and is gone: the moment
# between the end of an experiment and the last question about it.
cat >leaving.py <<'PY'
import fcntl, json, os, socket, sys
state, answers = sys.argv[1], int(sys.argv[2])
lock = open(state + "/lock", "r+")
fcntl.flock(lock, fcntl.LOCK_EX)
folder = os.open(state, os.O_RDONLY)
fcntl.flock(folder, fcntl.LOCK_EX)
path = state + "/master.sock"
if os.path.exists(path):
    os.unlink(path)
server = socket.socket(socket.AF_UNIX)
server.bind(path)
server.listen(64)
print("ready", flush=True)
asked = 0
while True:
    peer = server.accept()[0]
    head = b""
    while b"\r\n\r\n" not in head:
        head += peer.recv(1) # what it says after this stays unread: closing resets the connection
    target = head.split(b" ")[1].decode()
    asked += 1
    if asked > answers:
        peer.close()
        break
    if "/events" in target and "wait" in target:
        body = {"events": [{"type": "experiment", "experiment_id": 1, "state": "COMPLETED"}], "next": 2, "is_cut": False}
    elif "/events" in target:
        body = {"events": [], "next": 1, "is_cut": False}
    elif "/logs" in target:
        body = {"logs": [], "is_over": False}
    else:
        body = {"id": 1, "state": "ACTIVE", "metric": "validation_error", "progress": 0.5}
    text = json.dumps(body).encode()
    peer.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\nConnection: close\r\n\r\n" % len(text) + text)
    peer.close()
os.unlink(path)
PY
leaving() { # leaving ANSWERS: such a master, and until it is there
    python3 leaving.py "$EBB_STATE" "$1" >leaving.txt &
    wait_for grep -q ready leaving.txt
}
gone() { # it need not have been asked so often
    kill $! 2>/dev/null
    wait $! 2>/dev/null
    rm -f "$EBB_STATE/master.sock"
}
for answers in 1 2 3 4 5; do
    leaving $answers
    expect 0 "$ebb" run --resume 1 --no-charts
    has out.txt "Experiment 1 COMPLETED"
    gone
done
for answers in 1 2 3; do
    leaving $answers
    expect 0 "$ebb" experiment wait 1 --polling-interval 0.1
    has out.txt "terminated with state COMPLETED"
    gone
    leaving $answers
    expect 0 "$ebb" trial logs 1 --follow
    gone
    leaving $answers
    expect 0 "$ebb" experiment describe 1
    [ $answers -gt 1 ] || has out.txt COMPLETED # else that master has said otherwise
    gone
done
finish
