"""The connection to the master: one thread that owns the socket.

It says HELLO until it is accepted, reads messages, sends heartbeats, and after a loss tries again
for `patience` seconds. An answer is kept until it is acknowledged and sent again after every
reconnect, under the same number.
"""

import json
import os
import select
import signal
import socket
import threading
import time

PROTOCOL = 1
HEARTBEAT_S = 10.0
HELLO_S = 1.0
RETRY_S = 0.2
CLOSE_S = 2.0


def _default_term():
    signal.signal(signal.SIGTERM, signal.SIG_DFL)


class MasterLost(Exception):
    """The master is gone for good, or asked this process to end (SIGTERM): leave with exit code 75."""


class Link:
    def __init__(self, job):
        self._job = job
        self._changed = threading.Condition()
        self._inbox = []  # RUN messages
        self._outbox = []  # (seq, bytes), not acknowledged
        self._sent = 0  # how many of them on this connection
        self._is_up = False
        self._is_lost = False
        self._is_closing = False
        self.should_stop = False
        self.batch = 0
        self._wake_r, self._wake_w = os.pipe()
        os.set_blocking(self._wake_r, False)
        os.set_blocking(self._wake_w, False)
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, self._on_term)
            # Processes of the script (data loaders) must still end when they are told to.
            os.register_at_fork(after_in_child=_default_term)
        self._thread = threading.Thread(target=self._serve, name="ebb-link", daemon=True)
        self._thread.start()

    # ---- called by the trial ----

    def next(self):
        """The next RUN message."""
        with self._changed:
            while not self._inbox and not self._is_lost:
                self._changed.wait(0.5)  # a signal must get through
            if self._is_lost:
                raise MasterLost()
            return self._inbox.pop(0)

    def answer(self, seq, message):
        data = json.dumps(message, allow_nan=False, separators=(",", ":")).encode() + b"\n"
        with self._changed:
            self._outbox.append((seq, data))
        self._wake()

    def check(self):
        """After each batch: waits while the master is away."""
        with self._changed:
            while not self._is_up and not self._is_lost:
                self._changed.wait(0.5)
            if self._is_lost:
                raise MasterLost()

    def close(self):
        with self._changed:
            self._is_closing = True
        self._wake()
        self._thread.join(CLOSE_S + 1.0)

    # ---- the thread ----

    def _wake(self):
        try:
            os.write(self._wake_w, b"x")
        except BlockingIOError:
            pass

    def _on_term(self, _signal, _frame):
        # No lock here: the interrupted code may hold it.
        self._is_lost = True
        self._wake()

    def _serve(self):
        down_since = time.monotonic()
        while True:
            sock = self._connect()
            if sock is not None:
                try:
                    self._talk(sock)
                except OSError:
                    pass
                sock.close()
                down_since = time.monotonic()
                with self._changed:
                    self._is_up = False
                    self._sent = 0
            with self._changed:
                if self._is_closing and (not self._outbox or self._is_lost):
                    return
                if time.monotonic() - down_since >= self._job.patience or self._is_lost:
                    self._is_lost = True
                    self._changed.notify_all()
                    return
            self._pause(RETRY_S)

    def _connect(self):
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self._connect_to(sock, self._job.socket_path)
            sock.setblocking(False)
            return sock
        except OSError:
            sock.close()
            return None

    @staticmethod
    def _connect_to(sock, path):
        if len(os.fsencode(path)) < 108:
            sock.connect(path)
            return
        # Socket addresses are short; a longer path is reached through its directory.
        folder = os.open(os.path.dirname(path), os.O_RDONLY)
        try:
            sock.connect("/proc/self/fd/%d/%s" % (folder, os.path.basename(path)))
        finally:
            os.close(folder)

    def _pause(self, seconds):
        select.select([self._wake_r], [], [], seconds)
        self._drain()

    def _drain(self):
        try:
            while os.read(self._wake_r, 4096):
                pass
        except BlockingIOError:
            pass

    def _talk(self, sock):
        """One connection, until it ends."""
        received, out = b"", b""
        hello_at = beat_at = 0.0
        beat_at = time.monotonic()
        closing_since = None
        while True:
            now = time.monotonic()
            with self._changed:
                is_up = self._is_up
                if is_up:
                    out += b"".join(data for _, data in self._outbox[self._sent :])
                    # seq 0: no acknowledgement comes
                    self._outbox = [(s, d) for s, d in self._outbox if s != 0]
                    self._sent = len(self._outbox)
                if self._is_closing:
                    closing_since = closing_since or now
                    if not (self._outbox or out) or now - closing_since > CLOSE_S:
                        return
            if self._is_lost:
                return
            if not is_up and now - hello_at >= HELLO_S:
                out += self._hello()
                hello_at = now
            if is_up and now - beat_at >= HEARTBEAT_S:
                out += b'{"type":"HEARTBEAT","batch":%d}\n' % self.batch
                beat_at = now
            readable, writable, _ = select.select(
                [sock, self._wake_r], [sock] if out else [], [], RETRY_S
            )
            if self._wake_r in readable:
                self._drain()
            if writable:
                out = out[sock.send(out) :]
            if sock in readable:
                data = sock.recv(1 << 16)
                if not data:
                    return
                *lines, received = (received + data).split(b"\n")
                for line in lines:
                    self._receive(line)

    def _hello(self):
        message = {
            "type": "HELLO",
            "protocol": PROTOCOL,
            "allocation": self._job.allocation,
            "trial_id": self._job.trial_id,
        }
        return json.dumps(message).encode() + b"\n"

    def _receive(self, line):
        if not line.strip():
            return
        try:
            message = json.loads(line)
            kind = message.get("type")
        except (ValueError, AttributeError):
            print("ebb_client: skipped a line of the master", flush=True)
            return
        with self._changed:
            if kind == "RENDEZVOUS":
                self._is_up = True
            elif kind == "RUN":
                self._inbox.append(message)
            elif kind == "ACK":
                seq = message.get("seq")
                self._sent -= sum(1 for s, _ in self._outbox[: self._sent] if s == seq)
                self._outbox = [(s, d) for s, d in self._outbox if s != seq]
            elif kind == "PREEMPT":
                self.should_stop = True
            elif kind == "REFUSED":  # this process is no longer wanted
                print("ebb_client: refused: %s" % message.get("reason"), flush=True)
                self._is_lost = True
            else:
                print("ebb_client: skipped a message of type %r" % (kind,), flush=True)
            self._changed.notify_all()
