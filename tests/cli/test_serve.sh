# ebb serve, ebb ui, ebb user token: a master on TCP, in the clear on loopback and with TLS; tokens in the environment and in a file.
# $1 = the ebb program, $2 = source folder
. "$2/tests/cli/exp_common.sh"

export HOME=$work
unset EBB_TOKEN XDG_CONFIG_HOME

expect 2 "$ebb" serve --listen 0.0.0.0:80
has err.txt "--tls-cert FILE --tls-key FILE"
has err.txt "--behind-proxy"
expect 2 "$ebb" serve --listen nonsense
expect 2 "$ebb" serve --listen 127.0.0.1:0 --tls-cert none.pem --tls-key none.pem
has err.txt "none.pem"
expect 1 "$ebb" ui
has err.txt "ebb serve"

mkdir -p "$EBB_STATE"
printf 'listen: 127.0.0.1:0\nhosts: [lab.example]\nlisten_on: 1\n' >"$EBB_STATE/master.yaml"
expect 2 "$ebb" serve
has err.txt "listen_on: unknown key"
printf 'listen: 127.0.0.1:0\n' >"$EBB_STATE/master.yaml"
"$ebb" serve --json >serve.txt 2>serve.err &
server=$!
wait_for grep -q url serve.txt
url=$(sed -n 's/.*"url": *"\([^"]*\)".*/\1/p' serve.txt)
expect 1 "$ebb" serve
has err.txt "a master runs already"

expect 0 "$ebb" user token "$(id -un)"
token=$(cat out.txt)
expect 0 "$ebb" user token "$(id -un)" --read-only --days 2
reader=$(cat out.txt)
expect 1 "$ebb" user token nobody-there
expect 0 "$ebb" user token list
has out.txt "yes"
! grep -q "$token" out.txt || fail "a token is listed"
! grep -rq "$token" "$EBB_STATE" || fail "a token is stored"

expect 1 "$ebb" -m "$url" e list
has err.txt "a token is needed"
expect 0 env EBB_TOKEN="$token" "$ebb" -m "$url" e list --json
expect 1 env EBB_TOKEN=wrong "$ebb" -m "$url" e list
for other in http://192.0.2.1 http://127.0.0.1.lab.invalid http://localhost.lab.invalid http://127.0.0.1:1@192.0.2.1 http://localhost@192.0.2.1; do
    expect 2 env EBB_TOKEN="$token" "$ebb" -m $other e list
    has err.txt "use https://"
done
expect 1 env EBB_TOKEN="$reader" "$ebb" -m "$url" template set x /dev/null
has err.txt "may only read"
mkdir -p .config/ebb
echo "$token" >.config/ebb/token
chmod 644 .config/ebb/token
expect 2 "$ebb" -m "$url" e list
has err.txt "chmod 600"
chmod 600 .config/ebb/token
expect 0 "$ebb" -m "$url" user whoami

cat >one.yaml <<'YAML'
description: over TCP
entrypoint: ["false"]
hyperparameters: {global_batch_size: 1}
searcher: {name: single, metric: error, max_steps: 1}
max_restarts: 0
YAML
expect 0 "$ebb" -m "$url" e create one.yaml . --paused
expect 0 "$ebb" e describe 1
has out.txt "over TCP"

expect 0 "$ebb" ui --no-open
has out.txt "$url#login="
expect 0 "$ebb" user token revoke 1
expect 1 "$ebb" -m "$url" e list
has err.txt "revoked"
kill -TERM $server
wait $server
[ $? -eq 0 ] || fail "serve ends with $?: $(cat serve.err)"

# TLS
if command -v openssl >/dev/null; then
    openssl req -x509 -newkey rsa:2048 -nodes -keyout key.pem -out cert.pem -days 2 -subj /CN=localhost \
        -addext subjectAltName=DNS:localhost >openssl.txt 2>&1 || fail "no certificate: $(cat openssl.txt)"
    rm "$EBB_STATE/master.yaml" serve.txt # what the first one said is not to be read again
    "$ebb" serve --json --listen localhost:0 --tls-cert cert.pem --tls-key key.pem >serve.txt 2>serve.err &
    server=$!
    wait_for grep -q url serve.txt
    url=$(sed -n 's/.*"url": *"\([^"]*\)".*/\1/p' serve.txt)
    expect 0 "$ebb" user token "$(id -un)"
    export EBB_TOKEN=$(cat out.txt)
    expect 1 "$ebb" -m "$url" e list
    export SSL_CERT_FILE=cert.pem
    expect 0 "$ebb" -m "$url" e list
    head -c 3000000 /dev/urandom >big.bin # goes through many records of TLS
    mkdir -p def && mv big.bin def
    expect 0 "$ebb" -m "$url" e create one.yaml def --paused
    expect 0 "$ebb" -m "$url" e download-model-def 2 --output-dir .
    expect 0 sh -c 'mkdir out && tar xzf exp2*.tar.gz -C out && cmp out/big.bin def/big.bin'
    expect 1 "$ebb" -m "http://${url#https://}" e list
    kill -TERM $server
    wait $server
fi
finish
