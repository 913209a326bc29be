# ebb -m https://...: a TLS proxy before the socket of a running master; trust, mistrust, other words for addresses.
# $1 = the ebb program, $2 = source folder
. "$2/tests/cli/exp_common.sh"


command -v openssl >/dev/null || { echo "skipped: no openssl"; exit 0; }
openssl req -x509 -newkey rsa:2048 -nodes -keyout key.pem -out cert.pem -days 2 -subj /CN=localhost \
    -addext subjectAltName=DNS:localhost >openssl.txt 2>&1 || fail "no certificate: $(cat openssl.txt)"

cat >proxy.py <<'PY'
"""proxy.py SOCKET CERT KEY: TLS on a free port, whose number is printed; bytes go to a Unix socket and back."""
import os, socket, ssl, sys, threading

context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(sys.argv[2], sys.argv[3])
listener = socket.create_server(("127.0.0.1", 0))
print(listener.getsockname()[1], flush=True)

def pump(source, target):
    try:
        while data := source.recv(65536):
            target.sendall(data)
    except OSError:
        pass
    try:
        target.shutdown(socket.SHUT_WR)
    except OSError:
        pass

def serve(raw):
    try:
        client = context.wrap_socket(raw, server_side=True)
    except (OSError, ssl.SSLError):
        return
    master = socket.socket(socket.AF_UNIX)
    master.connect(sys.argv[1])
    threading.Thread(target=pump, args=(client, master), daemon=True).start()
    pump(master, client)
    client.close()

while True:
    threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()
PY

cat >slow.yaml <<'YAML'
description: over https
entrypoint: [sleep, "60"]
hyperparameters: {global_batch_size: 1}
searcher: {name: single, metric: error, max_steps: 1}
max_restarts: 0
YAML
"$ebb" run slow.yaml --no-charts >run.txt 2>&1 &
runner=$!
wait_for test -S "$EBB_STATE/master.sock"
wait_for grep -q "Created experiment 1" run.txt
python3 proxy.py "$EBB_STATE/master.sock" cert.pem key.pem >port.txt &
proxy=$!
wait_for test -s port.txt
port=$(cat port.txt)

SSL_CERT_FILE=$PWD/cert.pem expect 0 "$ebb" -m "https://localhost:$port" experiment list
has out.txt "over https"
SSL_CERT_FILE=$PWD/cert.pem expect 0 "$ebb" -m "https://localhost:$port" experiment set description 1 "seen from afar"
SSL_CERT_FILE=$PWD/cert.pem expect 0 "$ebb" -m "https://localhost:$port/" experiment describe 1
has out.txt "seen from afar"
expect 1 "$ebb" -m "https://localhost:$port" experiment list
has err.txt "certificate"
expect 1 "$ebb" -m "localhost:1" experiment list
has err.txt "no master answers at http://localhost:1: Connection refused"
expect 2 "$ebb" -m "localhost:99999" experiment list
has err.txt "is no HOST[:PORT]"
expect 2 "$ebb" -m "gopher://localhost" experiment list
has err.txt "is no HOST[:PORT]"

kill $proxy
expect 0 "$ebb" experiment kill 1
kill -INT $runner
wait $runner 2>/dev/null
finish
