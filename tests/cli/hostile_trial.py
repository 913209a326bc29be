"""Trials that misbehave, one way each: hostile_trial.py WAY. Used by test_exp_hostile.sh."""

import json
import os
import signal
import socket
import subprocess
import sys
import time

way = sys.argv[1]


def say(sock, message):
    sock.sendall(json.dumps(message).encode() + b"\n")


def raw():
    """A connection that has said HELLO and been given its first workload."""
    sock = socket.socket(socket.AF_UNIX)
    sock.connect(os.environ["EBB_SOCKET"])
    hello = {"type": "HELLO", "protocol": 1, "allocation": os.environ["EBB_ALLOCATION_ID"]}
    say(sock, hello)
    text = b""
    while b'"RUN"' not in text:
        text += sock.recv(65536)
    return sock


if way == "garbage":
    sock = raw()
    sock.sendall(b"\x00\xff{]]not json at all\n" * 100)
    time.sleep(60)
elif way == "endless-line":
    sock = raw()
    try:
        while True:
            sock.sendall(b"x" * (1 << 20))
    except OSError:
        pass
    time.sleep(60)
elif way == "silent":
    sock = raw()
    time.sleep(600)
elif way == "mute":  # never even connects
    time.sleep(600)
elif way == "liar":
    sock = raw()
    say(sock, {"type": "DONE", "seq": 1, "workload": {"kind": "CHECKPOINT_MODEL", "step_id": 99}, "metrics": {}})
    time.sleep(60)
elif way == "leaves":
    sys.exit(0)
elif way == "crashes":
    print("about to crash", flush=True)
    os.kill(os.getpid(), signal.SIGSEGV)
elif way == "impostor":
    sock = socket.socket(socket.AF_UNIX)
    sock.connect(os.environ["EBB_SOCKET"])
    say(sock, {"type": "HELLO", "protocol": 1, "allocation": "someone-else", "trial_id": 1})
    print(sock.recv(65536).decode(), flush=True)
    sys.exit(3)

# The others do their work, and something else beside it.
import ebb_client  # noqa: E402

if way == "flood":
    block = "y" * 1023
    for _ in range(8 * 1024):
        print(block)
    os.write(1, b"\xff\xfe no text \x00\x01\x1b[2J without end of line")
elif way.startswith("reason"):
    kind = ebb_client.InvalidHP if way == "reason-invalid" else ebb_client.Failed
    with ebb_client.connect() as ebb:
        for work in ebb.workloads():
            raise kind("\x1b[2J\x9b2J" + "z" * 100000)
elif way == "children":
    subprocess.Popen(["sleep", "7654"])
    subprocess.Popen(["sh", "-c", "trap '' TERM HUP; sleep 7654 & sleep 7654"])
elif way == "runaways":  # into a session of their own
    subprocess.Popen(["setsid", "sh", "-c", "sleep 8.765 & sleep 8.765"])

with ebb_client.connect() as ebb:
    for work in ebb.workloads():
        if work.is_train:
            for batch in work.batches():
                work.report(loss=float("nan") if way == "nan" else 1.0)
        elif work.is_validation and way == "wrong-metric":
            work.report(accuracy=0.5)
        elif work.is_validation:
            work.report(validation_error=float("nan") if way == "nan" else 0.25)
        elif way == "no-checkpoint":
            os.rmdir(work.directory)
        elif way == "link":
            os.symlink("/etc/passwd", os.path.join(work.directory, "weights"))
        else:
            with open(os.path.join(work.directory, "x"), "w", encoding="utf-8") as f:
                f.write("x")
