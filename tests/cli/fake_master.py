"""A master for tests of the trial's side: serves one trial process a list of workloads.

    fake_master.py WORK [--hparams JSON] [--checkpoint PATH[,STEP[,TRIAL]]] [--fault NAME] -- COMMAND...

WORK is a string of letters: S step, V validation, C checkpoint, T terminate. Prints one JSON object
per answer, and at the end {"exit": code, "hellos": n, "duplicates": n}. Faults:
  drop     close the connection after the first RUN, accept again half a second later
  noack    never acknowledge the first answer until the trial connected again
  twice    send each RUN twice
  garbage  say nonsense before each RUN
  gone     after the first RUN close everything and never come back
  term     send SIGTERM after the first RUN
  refused  say that the allocation is unknown
"""

import argparse
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time

KINDS = {"S": "RUN_STEP", "V": "COMPUTE_VALIDATION_METRICS", "C": "CHECKPOINT_MODEL", "T": "TERMINATE"}


class Master:
    def __init__(self, args):
        self.args = args
        self.dir = tempfile.mkdtemp(prefix="ebb-fake-")
        self.path = os.path.join(self.dir, "sock")
        self.listen()
        self.peer, self.buffer = None, b""
        self.hellos = self.duplicates = 0
        self.answered = set()
        self.step = 0

    def listen(self):
        self.server = socket.socket(socket.AF_UNIX)
        self.server.bind(self.path)
        self.server.listen(4)

    def start(self):
        latest = None
        if self.args.checkpoint:
            path, step, trial = (self.args.checkpoint.split(",") + ["0", "1"])[:3]
            latest = {"uuid": os.path.basename(path), "path": path, "step_id": int(step), "trial_id": int(trial)}
            self.step = int(step) if trial == "1" else 0
        config = os.path.join(self.dir, "config.json")
        with open(config, "w", encoding="utf-8") as f:
            json.dump(
                {
                    "config": {"batches_per_step": self.args.batches, "data": {"name": "none"}},
                    "hparams": json.loads(self.args.hparams),
                    "trial_seed": 42,
                    "experiment_id": 7,
                    "trial_id": 1,
                    "slots": ["0"],
                    "latest_checkpoint": latest,
                },
                f,
            )
        environ = dict(os.environ, EBB_SOCKET=self.path, EBB_CONFIG=config, EBB_ALLOCATION_ID="alloc-1")
        self.process = subprocess.Popen(self.args.command, env=environ, stdout=sys.stderr)

    def send(self, message):
        try:
            self.peer.sendall(json.dumps(message).encode() + b"\n")
        except OSError:
            pass

    def line(self, deadline):
        """The next message, or None when the trial is gone."""
        while time.monotonic() < deadline:
            if b"\n" in self.buffer:
                line, self.buffer = self.buffer.split(b"\n", 1)
                return json.loads(line)
            if self.process.poll() is not None and self.peer is None:
                return None
            waits = [self.server] + ([self.peer] if self.peer else [])
            for sock in select.select(waits, [], [], 0.05)[0]:
                if sock is self.server:
                    self.peer, self.buffer = self.server.accept()[0], b""
                else:
                    data = sock.recv(1 << 16)
                    if not data:
                        self.peer = None
                    self.buffer += data
        raise SystemExit("fake master: the trial did not answer in time")

    def hang_up(self):
        self.peer.close()
        self.peer, self.buffer = None, b""
        self.server.close()
        os.unlink(self.path)

    def handle(self, message, seq, is_ack_off):
        """True when workload `seq` was answered."""
        if message["type"] == "HELLO":
            assert message["protocol"] == 1 and message["allocation"] == "alloc-1", message
            self.hellos += 1
            if self.args.fault == "refused":
                self.send({"type": "REFUSED", "reason": "no such allocation"})
                return False
            self.send({"type": "RENDEZVOUS", "rank": 0, "size": 1, "peers": []})
            return False
        if message["type"] == "HEARTBEAT":
            return False
        if not is_ack_off and message["type"] == "DONE":
            self.send({"type": "ACK", "seq": message["seq"]})
        if message["seq"] in self.answered:
            self.duplicates += 1
            return False
        self.answered.add(message["seq"])
        print(json.dumps(message), flush=True)
        return message["seq"] == seq

    def run_one(self, seq, letter, deadline):
        if letter == "S":
            self.step += 1
        work = {"kind": KINDS[letter], "experiment_id": 7, "trial_id": 1, "step_id": self.step}
        if letter == "S":
            work["num_batches"] = self.args.batches
        if letter == "C":
            work["uuid"] = "00000000-0000-4000-8000-%012d" % seq
            work["path"] = os.path.join(self.args.store, work["uuid"])
        fault = self.args.fault
        if fault == "garbage":
            self.peer.sendall(b'}}not json\n{"type":"SURPRISE"}\n[1,2]\n\n')
        for _ in range(2 if fault == "twice" and letter != "T" else 1):
            self.send({"type": "RUN", "workload": work})
        if letter == "T":
            return True
        if fault == "drop" and seq == 1:
            self.hang_up()
            time.sleep(0.5)
            self.listen()
        if fault == "gone":
            self.hang_up()
            return False
        if fault == "term":
            self.process.send_signal(signal.SIGTERM)
            return False
        is_ack_off = fault == "noack" and seq == 1
        while True:
            message = self.line(deadline)
            if message is None:
                return False
            if self.handle(message, seq, is_ack_off):
                if message["type"] == "FAILED":
                    return False
                if is_ack_off:
                    self.peer.close()
                    self.peer = None
                    while self.duplicates == 0:
                        self.handle(self.line(deadline), seq, False)
                return True

    def run(self):
        deadline = time.monotonic() + self.args.timeout
        self.start()
        message = self.line(deadline)
        while message is not None and message["type"] != "FAILED" and self.hellos == 0:
            self.handle(message, 0, False)
        for seq, letter in enumerate("" if self.args.fault == "refused" else self.args.work, 1):
            if message is None or not self.run_one(seq, letter, deadline):
                break
        while self.args.fault not in ("gone", "term", "refused") and (self.line(deadline) or None) is not None:
            pass
        code = self.process.wait(timeout=max(1.0, deadline - time.monotonic()))
        print(json.dumps({"exit": code, "hellos": self.hellos, "duplicates": self.duplicates}))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("work")
    parser.add_argument("--hparams", default='{"global_batch_size": 8}')
    parser.add_argument("--checkpoint")
    parser.add_argument("--fault", default="")
    parser.add_argument("--batches", type=int, default=5)
    parser.add_argument("--store", default=os.path.join(os.getcwd(), "store"))
    parser.add_argument("--timeout", type=float, default=120.0)
    parser.add_argument("command", nargs="+")
    Master(parser.parse_args()).run()


main()
