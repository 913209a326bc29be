# Options and keys that would do nothing are mistakes: exit 2, and what to do. $1 = ebb, $2 = source folder.
. "$(dirname "$0")/common.sh"
export EBB_STATE=$work/state

cp "$source_dir/examples/lstm.yaml" exp.yaml
"$ebb" trace make chain --layers 4 -o t.trace >/dev/null || fail "a trace"

# refused TEXT WORD...: the command line is refused with that text
refused() {
    expect 2 "$ebb" "${@:2}"
    contains err "$1"
}

refused "--checkpoint-every needs --checkpoint DIR" train exp.yaml --checkpoint-every 5
refused "--any-threads needs --resume DIR" train exp.yaml --any-threads
refused "--validate-every does nothing beside --no-validation" train exp.yaml --validate-every 2 --no-validation
refused "--patience needs --validate-every N" train exp.yaml --patience 2
refused "--validate-every 0 makes none" train exp.yaml --patience 2 --validate-every 0
refused "--rename needs --init-weights FILE" train exp.yaml --rename 'a=b'
refused "--transpose needs --init-weights FILE" train exp.yaml --transpose 'a'
refused "--fresh needs --init-weights FILE" train exp.yaml --fresh 'a'
refused "--file-path needs --file BYTES" train exp.yaml --file-path .
refused "--file-path needs --file BYTES" bench gpt --file-path .
refused "memory.file_path: does nothing without room there, allowed with file > 0" train exp.yaml --set memory.file_path=.
for command in train explain; do
    refused "memory.link_bandwidth.host: does nothing without room there" $command exp.yaml --link host=2
    refused "memory.link_bandwidth.file: does nothing without room there" $command exp.yaml --host 1MiB --link file=2
    refused "--link host=3: this tier stands there twice" $command exp.yaml --host 1MiB --link host=2,host=3
    refused "--link host=: must be TIER=GB/s" $command exp.yaml --host 1MiB --link host=
    refused "memory.link_latency.file: does nothing" $command exp.yaml --set memory.link_latency.file=3
done
refused "memory.budget: the value given on the command line is empty" train exp.yaml --budget " " # of a variable that is not set
expect 0 "$ebb" explain exp.yaml --json --host 1MiB --link host=2
expect 2 "$ebb" train exp.yaml --host 1Mi --link host=2 # one mistake, not two
[[ $err != *"does nothing"* ]] || fail "room that cannot be read: $err"

refused "--no-chart does nothing beside --output or --json" explain exp.yaml --no-chart --json
refused "--no-chart does nothing beside" explain exp.yaml --no-chart -o x.svg
refused "--layers does nothing beside --json" explain exp.yaml --layers 3 --json
refused "--host-rate needs --host BYTES" sim t.trace -p lru -r 1 --host-rate 3
refused "--link host=3: this tier stands there twice" sim t.trace -p lru -r 1 --host 1MiB --link host=2 --link host=3
refused "--floor does nothing beside --no-floor" sim t.trace -p lru -r 1 --floor --no-floor
refused "--terminal does nothing beside --json" preview-search exp.yaml --terminal --json

refused "--json does nothing beside --as-file" model show cifar_resnet20 --as-file --json
refused "--all does nothing beside --as-file or --json" model show cifar_resnet20 --all --json
refused "--batch does nothing beside --as-file" model show cifar_resnet20 --as-file --batch 3
refused "--rename needs --weights FILE" model eval cifar_resnet20 -o o.npz --rename 'a=b'
refused "--batch does nothing beside --input" model eval cifar_resnet20 -o o.npz --input x.npz --batch 3
refused "--opt does nothing beside --forward" model trace cifar_resnet20 -o o.trace --forward --opt momentum=0.9
refused "--optimizer does nothing beside --forward" model trace cifar_resnet20 -o o.trace --forward --optimizer Adam

refused "--test-mode does nothing beside --resume" run --resume 1 --test-mode
refused "--config does nothing beside --resume" run --resume 1 --config a=1
refused "--output does nothing beside --no-charts" run exp.yaml --no-charts -o x
refused "--metric-name needs --best" trial download 1 --latest --metric-name loss
refused "--smaller-is-better needs --metric-name NAME" trial download 1 --best --smaller-is-better true
refused "--quiet does nothing beside --json" trial download 1 --best --quiet --json
refused "belong to gc-policy" experiment set weight 1 2 --save-trial-best 1
refused "belong to a token that is made" user token list --days 3

finish
