# What is Amazon's beside S3 itself: regions that are learned, keys of metadata services; s3rver behind it, another server's
# idea of S3 (it checks no signatures).
. "$2/common.sh"
need node npm
need_node
serve_s3rver || fail "s3rver does not start: $(cat "$RUN/s3rver.log")"
port=$((PORT + 12))
node "$STORE_TESTS/aws_server.js" $port "$S3RVER" > aws.log 2>&1 &
serve_pids+=($!)
serve_wait $port "the server" || fail "$(cat aws.log)"
there="{\"type\":\"s3\",\"bucket\":\"ckpt\",\"endpoint_url\":\"http://127.0.0.1:$port\"}"
make_checkpoint here 20000000

for key in one two; do
    export ACCESS_KEY=$key SECRET_KEY=secret
    "$tool" "$there" put $uuid here journal-$key || fail "put as $key"
    "$tool" "$there" get $uuid back-$key || fail "get as $key"
    same_tree here/$uuid back-$key/$uuid
    "$tool" "$there" remove $uuid here || fail "remove as $key"
done
AWS_REGION=eu-test-1 "$tool" "$there" check scratch || fail "AWS_REGION"
ok "the region is learned from a redirect and from an error"

unset ACCESS_KEY SECRET_KEY
export HOME=$RUN
AWS_EC2_METADATA_SERVICE_ENDPOINT=http://127.0.0.1:$port/ "$tool" "$there" check scratch || fail "metadata service"
AWS_CONTAINER_CREDENTIALS_FULL_URI=http://127.0.0.1:$port/container AWS_CONTAINER_AUTHORIZATION_TOKEN=pass \
    "$tool" "$there" check scratch || fail "container"
AWS_CONTAINER_CREDENTIALS_FULL_URI=http://127.0.0.1:$port/container AWS_CONTAINER_AUTHORIZATION_TOKEN=no \
    AWS_EC2_METADATA_DISABLED=true "$tool" "$there" check scratch 2> err.txt && fail "keys from nowhere"
has err.txt "no keys"
ok "keys of the machine (version 2) and of the container"
exit 0
