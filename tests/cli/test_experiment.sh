# ebb experiment: output and exit codes of validate and schema, and the pages that repeat their help.
# $1 = the ebb program, $2 = source folder
set -u
ebb=$1
source_dir=$2
failed=0

if ! "$ebb" experiment --help >/dev/null 2>&1; then
    echo "skipped: this build has no 'ebb experiment'"
    exit 0
fi

fail() {
    echo "FAILED: $*"
    failed=1
}

expect_code() { # expect_code CODE COMMAND...
    local want=$1
    shift
    "$@" >out.txt 2>err.txt
    local got=$?
    [ "$got" -eq "$want" ] || fail "exit $got instead of $want: $*"
}

work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
cp "$source_dir"/tests/golden/config/broken/* .

# Every broken file prints exactly its golden output and leaves with 2.
count=0
for text in *.txt; do
    name=${text%.txt}
    template=()
    [ -f "$name.template" ] && template=(--template "$name.template")
    expect_code 2 "$ebb" experiment validate "$name.yaml" "${template[@]}"
    tail -n +2 "$text" | cmp -s - out.txt || fail "output of $name.yaml"
    count=$((count + 1))
done
[ "$count" -ge 40 ] || fail "only $count broken files"

# Hyperparameters without values: told once, and nothing follows from them in the sections that use them.
cat >used.yaml <<'YAML'
entrypoint: ebb:image_classification
data: {name: fashion_mnist}
model: {name: cifar_resnet20, blocks: ["${blocks}", 1, 1]}
hyperparameters:
  global_batch_size: 4
  rate: {type: categorical, vals: []}
  blocks: {type: int, minval: few, maxval: 4}
  decay: {type: log, base: 0, minval: -3, maxval: 0}
opt: {name: SGD, lr: "${rate}", weight_decay: "${decay}", momentum: "${rate}", nesterov: true, momentun: 0.9}
searcher: {name: single, metric: validation_loss, max_steps: 1}
YAML
expect_code 2 "$ebb" experiment validate used.yaml
[ "$(cut -d' ' -f2 out.txt | tr '\n' ' ')" = "hyperparameters.rate.vals: hyperparameters.blocks.minval: hyperparameters.decay.base: opt.momentun: invalid: " ] ||
    fail "output of used.yaml"
sed -i 's/, momentun: 0.9//' used.yaml
expect_code 2 "$ebb" experiment validate used.yaml
grep -q '^used.yaml: invalid: 3 errors' out.txt || fail "a rule was checked with a value that is not known"

# A valid file, from a file and from standard input.
cat >good.yaml <<'YAML'
entrypoint: model_def:MyTrial
hyperparameters: {global_batch_size: 64}
searcher: {name: single, metric: loss, max_steps: 10}
YAML
expect_code 0 "$ebb" experiment validate good.yaml
[ "$(cat out.txt)" = "good.yaml: valid" ] || fail "output of good.yaml"
expect_code 0 "$ebb" experiment validate - <good.yaml

# JSON is one object on one line, with secrets masked.
echo 'environment: {registry_auth: {username: u, password: hidden-word}}' >>good.yaml
expect_code 0 "$ebb" experiment validate good.yaml --json
[ "$(wc -l <out.txt)" -eq 1 ] || fail "JSON is not one line"
grep -q '"valid": true' out.txt || fail "JSON says not valid"
grep -q '"registry_auth": "\*\*\*\*\*\*\*\*"' out.txt || fail "credentials are not masked"
grep -q hidden-word out.txt && fail "a password was printed"

# What cannot be read is no invalid file; wrong use is.
expect_code 1 "$ebb" experiment validate nowhere.yaml
expect_code 1 "$ebb" experiment validate good.yaml --template nowhere.yaml
expect_code 2 "$ebb" experiment validate good.yaml --template alias-bomb.yaml
expect_code 2 "$ebb" experiment validate
expect_code 2 "$ebb" experiment validate good.yaml --tempalte x
expect_code 2 "$ebb" experiment valdate good.yaml
grep -q validate err.txt || fail "the nearest verb is not named"

# The reference page and the command page are what the program prints.
"$ebb" experiment schema | cmp -s - "$source_dir/docs/experiment-file.md" ||
    fail "docs/experiment-file.md is not what 'ebb experiment schema' prints"
for verb in validate schema; do
    "$ebb" experiment $verb --help | sed 's/[[:space:]]*$//' >help.txt
    sed -n "/^## ebb experiment $verb\$/,/^## /p" "$source_dir/docs/cli/experiment.md" |
        sed -n '/^```text$/,/^```$/p' | sed '1d;$d' | sed '/^```$/,$d' | cmp -s - help.txt ||
        fail "docs/cli/experiment.md does not repeat 'ebb experiment $verb --help'"
done

[ "$failed" -eq 0 ] && echo "$count broken files, all checks passed"
exit "$failed"
