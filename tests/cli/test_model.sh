#!/usr/bin/env bash
# ebb model: the list, sizes of models that fit nowhere, traces that the other commands read, weights and outputs as files;
# the zoo against torch where torch is installed. $1 = ebb, $2 = source folder.
. "$(dirname "$0")/common.sh"

# ---- list and show ----
"$ebb" model list >"$work/list" || fail "list exits $?"
for word in cifar_resnet20 resnet50 densenet121 unet inception_v4 mobilenet_v2 deepcam cosmoflow wlm_lstm gpt2_124M bert_large \
    GPT_175B unrolled_gan; do
    grep -q "^$word " "$work/list" || fail "list lacks $word"
done
[ "$("$ebb" model list --json | wc -l)" = "$(($(wc -l <"$work/list") - 1))" ] || fail "list --json has another number of rows"
"$ebb" model show GPT_175B | grep -q "^174591700992 parameters" || fail "show GPT_175B does not count its parameters"
"$ebb" model show resnet50 --batch 8 --json | grep -q '"parameters": *25557032' || fail "show --json lacks the parameters"
"$ebb" model show resnet50 --all | grep -q "relu" || fail "show --all lacks activations"
"$ebb" model show cifar_resnet20 --set blocks=1,2,1 --set planes=4 | grep -q "layer2.1.conv2" || fail "--set blocks is not honoured"
"$ebb" model show unet -s planes=4 --precision bf16 >"$work/out" || fail "show --precision bf16 exits $?"

# ---- mistakes: exit 2, nearest name, allowed values ----
mistake() {
    local want=$1
    shift
    "$ebb" "$@" >"$work/out" 2>"$work/err"
    local code=$?
    [ "$code" = 2 ] || fail "'$*' exits $code, not 2"
    grep -q -- "$want" "$work/err" || fail "'$*' does not say '$want': $(cat "$work/err")"
}
mistake "resnet50" model show resnt50
mistake "nearest: planes" model show resnet50 --set plans=4
mistake ">= 1, <= 4096" model show resnet50 --set planes=0
mistake "key=value" model show resnet50 --set planes
mistake "model.blocks: found an empty list" model show cifar_resnet20 --set 'blocks=[]'
mistake "divisors" model show gpt2_124M --set heads=7
mistake "batch" model show resnet50 --batch 0
mistake "-o FILE" model trace resnet50
mistake "precision" model show resnet50 --precision int8
mistake "optimizer" model trace resnet50 --optimizer Adm -o "$work/t"
mistake "winograd" model trace resnet50 --passes wino -o "$work/t"
"$ebb" model trace --help | grep -q "small, head" || fail "--passes does not name every rewrite"
mistake "momentun" model trace resnet50 --opt momentun=1 -o "$work/t"

# ---- traces ----
"$ebb" model trace gpt2_124M --set length=256 --batch 2 --optimizer AdamW --opt betas=0.9,0.95 -o "$work/gpt2.trace" >/dev/null ||
    fail "trace gpt2_124M exits $?"
"$ebb" model trace resnet50 --batch 8 --opt momentum=0.9 --threads 0 -o "$work/r50.trace" >/dev/null || fail "trace resnet50 exits $?"
"$ebb" model trace gpt2_124M --set layers=2 --set length=64 --passes entropy -o "$work/entropy.trace" >/dev/null || fail "trace --passes exits $?"
"$ebb" trace stat "$work/entropy.trace" | grep -q product_entropy || fail "--passes entropy has no effect"
"$ebb" model trace unet --set planes=4 --set depth=2 --forward -o "$work/unet.trace" >/dev/null || fail "trace --forward exits $?"
for t in gpt2 r50 unet; do
    "$ebb" trace stat "$work/$t.trace" >"$work/out" || fail "trace stat cannot read $t.trace"
done
"$ebb" model trace resnet50 --batch 8 --opt momentum=0.9 --threads 0 -o "$work/again.trace" >/dev/null
cmp -s "$work/r50.trace" "$work/again.trace" || fail "two traces of one model differ"

# ---- weights and outputs ----
small=(--set blocks=1,1,1 --set planes=4 --set height=8 --set width=8)
"$ebb" model init cifar_resnet20 "${small[@]}" -o "$work/w" >/dev/null || fail "init exits $?"
"$ebb" model eval cifar_resnet20 "${small[@]}" -o "$work/a" >/dev/null || fail "eval exits $?"
"$ebb" model eval cifar_resnet20 "${small[@]}" --weights "$work/w" -o "$work/b" >/dev/null || fail "eval --weights exits $?"
cmp -s "$work/a" "$work/b" || fail "initial weights and those of the file give other outputs"
"$ebb" model init cifar_resnet20 "${small[@]}" --seed 2 -o "$work/w2" >/dev/null
cmp -s "$work/w" "$work/w2" && fail "another seed gives the same weights"
mistake "layer2.1.conv1.weight" model eval cifar_resnet20 --set blocks=1,2,1 --set planes=4 --weights "$work/w" -o "$work/c"

# a model that fits nowhere is refused before memory is taken
expect 1 "$ebb" model eval GPT_175B -o "$work/huge.npz"
[[ $err == *"evaluating GPT_175B takes 6"*" GiB, this machine has"* ]] || fail "GPT_175B is evaluated: $err"

# ---- torch ----
for python in python3 /usr/bin/python3; do
    "$python" "$source_dir/tests/models/torch_reference.py" "$ebb" >"$work/torch" 2>&1
    code=$?
    [ $code = 77 ] || break
done
cat "$work/torch"
[ $code = 0 ] || [ $code = 77 ] || fail "the zoo and torch differ (exit $code)"

finish
