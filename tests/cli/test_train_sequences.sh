# Arrays of tokens feed the sequence classifiers; labels that are no whole numbers, and tokens beyond the vocabulary, are named.
# $1 = the ebb program, $2 = source folder
. "$2/tests/cli/common.sh"
command -v python3 >/dev/null || { echo "skipped: no python3"; exit 0; }

cat >make.py <<'PY'
import io, struct, sys, zipfile
def npy(descr, shape, data):
    head = "{'descr': '%s', 'fortran_order': False, 'shape': %s, }" % (descr, shape)
    head += " " * ((64 - (10 + len(head) + 1) % 64) % 64) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head.encode() + data
def write(path, tokens, labels, kind):
    with zipfile.ZipFile(path, "w") as z:
        z.writestr("x.npy", npy("<i8", "(%d, 16)" % len(labels), struct.pack("<%dq" % len(tokens), *tokens)))
        code = "<i8" if kind == "q" else "<f4"
        z.writestr("y.npy", npy(code, "(%d,)" % len(labels), struct.pack("<%d%s" % (len(labels), kind), *labels)))
tokens, labels = [], []
for i in range(64): # the class of a sequence is that of its first token, which comes again and again
    label = i % 3
    tokens += [label if k % 2 == 0 else 3 + (i * 7 + k) % 20 for k in range(16)]
    labels.append(label)
write("good.npz", tokens, labels, "q")
write("floats.npz", tokens, [float(x) for x in labels], "f")
write("beyond.npz", [t + 20 for t in tokens], labels, "q")
PY
python3 make.py
cat >exp.yaml <<YAML
entrypoint: ebb:language_model
data: {name: npz, data_dir: $work, train_files: good.npz, val_files: good.npz, vocabulary: 23}
model: {name: Bert, layers: 1, width: 32, heads: 2}
hyperparameters: {global_batch_size: 16}
opt: {name: AdamW, lr: 0.01}
searcher: {name: single, metric: validation_loss, max_steps: 1}
YAML
expect 0 "$ebb" train exp.yaml --updates 60
loss=$(sed -n 's/.*validation_loss //p' out)
python3 -c "import sys; sys.exit(not float('$loss') < 0.1)" || fail "three classes of sequences are not learned: $loss"
sed 's/name: Bert, /name: GPT2small, /' exp.yaml >gpt.yaml
expect 0 "$ebb" train gpt.yaml --updates 2
expect 2 "$ebb" train exp.yaml --updates 1 --set data.train_files=floats.npz --set data.val_files=floats.npz
contains err "whole numbers, as classes and tokens are; store them as integers"
expect 2 "$ebb" train exp.yaml --updates 4 --set data.train_files=beyond.npz
contains err "the vocabulary has 23"
expect 2 "$ebb" train exp.yaml --updates 1 --set 'data.fields=[y, x]'
finish
