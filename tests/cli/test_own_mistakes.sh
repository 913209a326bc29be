# Own models, data and weights that are wrong, or unusual: nothing is guessed, nothing is ignored, answers are those of the model.
# $1 = the ebb program, $2 = source folder
. "$2/tests/cli/common.sh"
command -v python3 >/dev/null || { echo "skipped: no python3"; exit 0; }

# rc 2, and the message
wrong() {
    local text=$1
    shift
    expect 2 "$@"
    contains err "$text"
}
section() { # data model [opt] [task]: an experiment
    cat <<YAML
entrypoint: ebb:${4:-image_classification}
data: $1
model: $2
hyperparameters: {global_batch_size: 4}
opt: ${3:-{name: Adam, lr: 0.05\}}
searcher: {name: single, metric: validation_loss, max_steps: 1}
YAML
}
cat >make.py <<'PY'
import io, pickle, random, struct, sys, zipfile, zlib
random.seed(1)
def npy(kind, shape, values, turned=False):
    if turned: # a matrix as numpy writes X.T
        values = [values[r * shape[1] + c] for c in range(shape[1]) for r in range(shape[0])]
    head = "{'descr': '%s', 'fortran_order': %s, 'shape': (%s), }" % ({"f": "<f4", "q": "<i8"}[kind], turned, "".join("%d," % n for n in shape))
    head += " " * ((64 - (10 + len(head) + 1) % 64) % 64) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head.encode() + struct.pack("<%d%s" % (len(values), kind), *values)
def npz(path, **arrays):
    with zipfile.ZipFile(path, "w") as z:
        for name, a in arrays.items():
            z.writestr(name + ".npy", npy(*a))
normal = lambda n: [random.gauss(0, 1) for _ in range(n)]
x, y = normal(80), [i % 2 for i in range(20)]
tokens = [random.randrange(7) for _ in range(100)]
npz("several.npz", a=("f", (20, 4), x), b=("q", (20, 5), tokens), y=("q", (20,), y), z=("f", (20, 2), normal(40)))
npz("asked.npz", a=("f", (20, 4), x), b=("q", (20, 5), tokens))
npz("columns.npz", a=("f", (20, 4), x, True), b=("q", (20, 5), tokens, True))
npz("masks.npz", x=("f", (4, 3, 2, 2), normal(48)), y=("q", (4, 2, 2), [0, 1, 2, 0] * 3 + [0, 1, 7, 255]))
npz("eight.npz", **{c: ("q", (2, 3), [0] * 6) for c in "abcdefgh"})
npz("fewer.npz", a=("f", (10, 4), x[:40]), b=("q", (20, 5), tokens))
npz("turned.npz", x=("f", (8, 6, 6, 3), normal(864)), y=("q", (8,), y[:8]))
npz("flat.npz", x=("f", (8, 108), normal(864)), y=("q", (8,), y[:8]))
with open("t.csv", "w") as f:
    f.write("a,b,c,d,kind\n")
    for i in range(20):
        r = normal(4)
        f.write(", ".join("%.4f" % v for v in r) + ",%d\n" % (sum(r) > 0)) # blanks before numbers
# what torch.save writes, by hand: {"fc.weight": a tensor of `shape` with `strides`}
def pt(path, shape, strides, values, damage=False, storage="FloatStorage"):
    class Global:
        def __init__(self, text): self.text = text
    def tuple_of(*codes): return b"(" + b"".join(codes) + b"t"
    text = lambda s: b"X" + struct.pack("<I", len(s)) + s.encode()
    number = lambda n: b"\x8a\x08" + struct.pack("<q", n)
    glob = lambda m, n: b"c" + m.encode() + b"\n" + n.encode() + b"\n"
    code = b"\x80\x02}" + text("fc.weight") + glob("torch._utils", "_rebuild_tensor_v2") + tuple_of(
        tuple_of(text("storage"), glob("torch", storage), text("0"), text("cpu"), number(len(values))) + b"Q",
        number(0), tuple_of(*map(number, shape)), tuple_of(*map(number, strides)), b"\x89", glob("collections", "OrderedDict") + b")R") + b"Rs."
    with zipfile.ZipFile(path, "w") as z:
        z.writestr("a/data.pkl", code)
        z.writestr("a/data/0", struct.pack("<%df" % len(values), *values))
    if damage:
        bytes_ = open(path, "rb").read()
        at = bytes_.find(struct.pack("<f", values[1])) + 2
        open(path, "wb").write(bytes_[:at] + bytes([bytes_[at] ^ 1]) + bytes_[at + 1:])
values = normal(8)
pt("plain.pt", (2, 4), (4, 1), values)
pt("damaged.pt", (2, 4), (4, 1), values, damage=True)
pt("repeated.pt", (2, 4), (0, 0), values[:1])
pt("endless.pt", (1 << 20, 1 << 20), (0, 0), values[:1])
pt("complex.pt", (2, 4), (4, 1), values, storage="ComplexFloatStorage")
golden = sys.argv[1]
d = bytearray(open(golden + "/progressive.jpg", "rb").read())
at = d.find(b"\xff\xc2")
d[at + 5:at + 9] = bytes([0x20, 0, 0x20, 0]) # 8192 x 8192
open("large.jpg", "wb").write(d)
d = bytearray(open(golden + "/variants.h5", "rb").read())
d = d.replace(b"\x01\x00\x08\x00\x01\x00\x01\x00deflate\x00", struct.pack("<H", 32000) + b"\x08\x00\x01\x00\x01\x00lzf\x00\x00\x00\x00\x00")
open("lzf.h5", "wb").write(d)
PY
python3 make.py "$source_dir/tests/golden/data" || fail "make.py"

# several inputs, results and targets, a loss and metrics over them
cat >several.yaml <<'YAML'
inputs:
  a: [4]
  b: {shape: [5], dtype: int64}
  place: {shape: [5, 3], batch: false, fill: waves}
  y: {shape: [], dtype: int64, target: true}
  z: {shape: [2], target: true}
modules: {e: "Embedding(7, 3)", f: "Linear(19, 8)", kind: "Linear(8, 2)", size: "Linear(8, 2)"}
forward:
  - s = relu(f(cat([a, (e(b) + place).flatten(1)], 1)))
  - scores = kind(s)
  - sizes = size(s)
  - return scores, sizes
loss: cross_entropy(scores, y) + 0.1 * mse_loss(sizes, z)
metrics: {right: "accuracy(scores, y)", ones: "(scores[:, 1] > scores[:, 0]).mean()", others: "(scores[:, 1] <= scores[:, 0]).mean()"}
YAML
section '{name: npz, train_files: several.npz, val_files: several.npz, fields: [a, b, y, z]}' '{file: several.yaml}' '{name: Adam, lr: 0.02, ema: 0.7}' >several_exp.yaml
expect 0 "$ebb" train several_exp.yaml --updates 40 --validate-every 10 --checkpoint ck --checkpoint-every 20 --export-weights several.safetensors --json
right=$(value validation_right) ones=$(value validation_ones) others=$(value validation_others)
expect 0 "$ebb" predict several_exp.yaml -w several.safetensors -i asked.npz
python3 - "$right" "$ones" "$others" <<'PY' || fail "metrics of the file and answers differ: $right $ones $others"
import sys
classes = [int(line.split(",")[1]) for line in open("out").read().split("\n")[1:] if line]
want = [sum(c == i % 2 for i, c in enumerate(classes)) / 20, sum(classes) / 20, 1 - sum(classes) / 20]
sys.exit(any(abs(a - float(b)) > 1e-6 for a, b in zip(want, sys.argv[1:])))
PY
expect 0 "$ebb" predict several_exp.yaml -w several.safetensors -i asked.npz -o all.npz
python3 -c 'import zipfile; assert sorted(zipfile.ZipFile("all.npz").namelist()) == ["scores.npy", "sizes.npy"]' || fail "results that are left out"
expect 0 "$ebb" predict several_exp.yaml -w several.safetensors -i asked.npz -o some.npz --batch 3
cmp -s all.npz some.npz || fail "answers depend on the batch"
expect 0 "$ebb" predict several_exp.yaml -w several.safetensors -i columns.npz -o some.npz
cmp -s all.npz some.npz || fail "an array whose columns lie together has other answers"
expect 0 "$ebb" model eval ./several.yaml --weights several.safetensors --input asked.npz -o eval.npz
wrong "any number of samples first, of all inputs as many" "$ebb" predict several_exp.yaml -w several.safetensors -i fewer.npz

wrong "no tensor of several.safetensors has such a name" "$ebb" predict several_exp.yaml -w several.safetensors -i asked.npz --rename 'module.*=*'
wrong "are for weights of others" "$ebb" eval several_exp.yaml -w ck --rename 'e.*=e.*'

# a checkpoint, a folder of them: the averages, which validation measures, for every command
for w in ck ck/update-000000000040; do
    expect 0 "$ebb" predict several_exp.yaml -w $w -i asked.npz -o some.npz
    cmp -s all.npz some.npz || fail "other answers of $w"
    expect 0 "$ebb" model export ./several.yaml --weights $w -o $(basename $w).onnx
    expect 0 "$ebb" eval several_exp.yaml -w $w
    contains out "validation_right           $right"
    expect 0 "$ebb" train several_exp.yaml --updates 0 --no-validation --init-weights $w --export-weights begun.safetensors
    cmp -s begun.safetensors several.safetensors || fail "training begins with other weights than those of $w"
done
expect 0 "$ebb" model export ./several.yaml --weights several.safetensors -o weights.onnx
cmp -s weights.onnx ck.onnx || fail "export of a checkpoint leaves the averages out"
cp -r ck torn
: >torn/update-000000000040/state/weights.safetensors
expect 0 "$ebb" predict several_exp.yaml -w torn -i asked.npz
wrong "weights.safetensors" "$ebb" predict several_exp.yaml -w torn/update-000000000040 -i asked.npz
python3 -c 'print("abc" * 200)' >words.txt
section '{name: text, tokenizer: byte, train_files: words.txt, sequence_length: 8}' '{name: gpt2_124M, layers: 1, width: 16, heads: 2, dropout: 0, length: 8, positions: 8}' '{name: AdamW, lr: 0.02, ema: 0.9}' language_model >words.yaml
expect 0 "$ebb" train words.yaml --updates 100 --no-validation --checkpoint wck --export-weights words.npz
expect 0 "$ebb" generate words.yaml -w words.npz -p ab -n 30 -t 2 --json
cp out averages
expect 0 "$ebb" generate words.yaml -w wck -p ab -n 30 -t 2 --json
cmp -s out averages || fail "text of a checkpoint is not that of its averages"

# one score tells class 1 from class 0
cat >one.yaml <<'YAML'
inputs: {x: [4]}
modules: {fc: "Linear(4, 1)"}
forward: [return fc(x)]
loss: binary_cross_entropy_with_logits
YAML
section '{name: csv, train_files: t.csv, val_files: t.csv, target: kind, target_kind: numbers}' '{file: one.yaml}' >one_exp.yaml
expect 0 "$ebb" train one_exp.yaml --updates 60 --export-weights one.npz --json
accuracy=$(value validation_accuracy)
expect 0 "$ebb" predict one_exp.yaml -w one.npz -i t.csv
python3 - "$accuracy" <<'PY' || fail "classes of one score: $(head -3 out), accuracy $accuracy"
import sys
wanted = [line.strip().split(",")[-1] for line in open("t.csv").read().split("\n")[1:] if line]
rows = [line.split(",") for line in open("out").read().split("\n")[1:] if line]
right = sum(r[1] == w for r, w in zip(rows, wanted)) / 20
assert {r[1] for r in rows} == {"0", "1"} and abs(right - float(sys.argv[1])) < 1e-6
assert all(0.5 <= float(r[3]) <= 1 for r in rows) and len({r[3] for r in rows}) > 1
PY
wrong "data.target_kind: numbers" "$ebb" train one_exp.yaml --updates 1 --set data.target_kind=classes

# inputs of another width or kind, and numbers in another order
sed 's/4/5/g' one.yaml >wide.yaml
section '{name: csv, train_files: t.csv, val_files: t.csv, target: kind, target_kind: numbers}' '{file: wide.yaml}' >wide_exp.yaml
expect 0 "$ebb" model init ./wide.yaml -o wide.npz
wrong "a row has 4 numbers, the model's 'x' is F32 [16, 5]" "$ebb" predict wide_exp.yaml -w wide.npz -i t.csv
cat >picture.yaml <<'YAML'
inputs: {x: [3, 6, 6]}
modules: {fc: "Linear(108, 2)"}
forward: [return fc(x.flatten(1))]
loss: cross_entropy
YAML
section '{name: npz, train_files: turned.npz, val_files: turned.npz}' '{file: picture.yaml}' >picture_exp.yaml
wrong "a sample's 'x' is [6, 6, 3], the model wants 'x' [4, 3, 6, 6] for a batch of 4: the same numbers in another order" "$ebb" train picture_exp.yaml --updates 1
expect 0 "$ebb" train picture_exp.yaml --updates 1 --set data.train_files=flat.npz --set data.val_files=flat.npz
wrong "no array named pictures (data.fields); there is x, y" "$ebb" data check '{name: npz, train_files: flat.npz, fields: [pictures, y]}'

# tables
wrong "column 'kind' is the target" "$ebb" data check '{name: csv, train_files: t.csv, target: kind, inputs: [a, kind]}'
wrong "is data.separator another?" "$ebb" data check '{name: csv, train_files: t.csv, target: kind, separator: semicolon}'
printf 'a,kind\n1e39,x\n1,\n2,x\n' >huge.csv
expect 1 "$ebb" data check '{name: csv, train_files: huge.csv, target: kind}'
contains err "huge.csv:2: column 1 (a): found '1e39', allowed: a number of 32 bits"
contains err "huge.csv:3: column 2 (kind): found '', allowed: a class or a number"
sed 's/target: kind/target: kind, inputs: 3/' one_exp.yaml >mistake.yaml
wrong "mistake.yaml:2:" "$ebb" data check mistake.yaml

# a program that says what nobody asked for
cat >talks.py <<'PY'
import json, struct, sys
fields = [{"name": "x", "dtype": "f32", "shape": [4]}, {"name": "x" if sys.argv[1] == "twice" else "y", "dtype": "i64", "shape": []}]
answer = {"train": 4, "validation": 4, "classes": 2, "fields": fields}
if sys.argv[1] == "unknown":
    answer["clases"] = 3
for line in sys.stdin:
    print(json.dumps(answer), flush=True)
PY
wrong "unknown key 'clases'; nearest: classes" "$ebb" data check '{name: command, command: [python3, talks.py, unknown]}'
wrong "fields[1]: 'x' is fields[0]" "$ebb" data check '{name: command, command: [python3, talks.py, twice]}'
wrong "allowed: a list of the program and its arguments" "$ebb" data check '{name: command, command: python3 talks.py}'

# weights: changed bytes, tensors without an end, numbers of another kind, an index of itself
printf '%s\n' 'inputs: {x: [4]}' 'modules: {fc: "Linear(4, 2, bias=False)"}' 'forward: [return fc(x)]' 'loss: mse_loss' >line.yaml
for w in plain repeated; do expect 0 "$ebb" model eval ./line.yaml --weights $w.pt -o line.npz; done
wrong "a storage was changed: its CRC-32 is another" "$ebb" model eval ./line.yaml --weights damaged.pt -o line.npz
wrong "repeats its storage over more than 64 MiB" "$ebb" model eval ./line.yaml --weights endless.pt -o line.npz
wrong "tensors of torch ComplexFloatStorage are not read here" "$ebb" model eval ./line.yaml --weights complex.pt -o line.npz
printf '{"weight_map": {"fc.weight": "self.index.json"}}' >self.index.json
wrong "is an index again" "$ebb" model eval ./line.yaml --weights self.index.json -o line.npz

# masks beyond their classes; more fields than there is room for
expect 1 "$ebb" data check '{name: npz, train_files: masks.npz, classes: 3}'
contains err "masks.npz: sample 3: place 2 of the mask is 7, there are 3 classes"
contains out "training 3 good, 1 bad"
wrong "at most 8 fields, 6 with a vocabulary" "$ebb" data show '{name: npz, train_files: eight.npz, fields: [a, b, c, d, e, f, g, h], vocabulary: 9}'

# what ended early stays ended
early='--updates 60 --set searcher.early_stopping.patience=2 --set min_validation_period=1 --set opt.lr=0 --validate-every 2'
expect 0 "$ebb" train one_exp.yaml $early --checkpoint early --json
hash=$(value weights_sha256)
[ "$(value updates)" = 6 ] || fail "ends after $(value updates)"
expect 0 "$ebb" train one_exp.yaml $early --checkpoint early --resume early --set opt.lr=1 --json
[ "$(value updates) $(value weights_sha256)" = "6 $hash" ] || fail "what ended early goes on: $(value updates)"

# averages take no second copy of an item beside the budget
printf '%s\n' 'task: language_model' 'inputs: {x: {shape: [8], dtype: int64}}' 'modules: {e: "Embedding(100000, 64)", fc: "Linear(64, 50)"}' \
    'forward: ["return fc(e(x)).reshape(batch * 8, 50)"]' 'loss: cross_entropy' >wide_words.yaml
section '{name: tokens, data_dir: synthetic, sequence_length: 8, vocabulary: 50, samples: 16, val_samples: 4}' '{file: wide_words.yaml}' '{name: SGD, lr: 0.1, ema: 0.9}' language_model >wide_words_exp.yaml
if is_sanitized; then
    echo "skipped: resident bytes under a sanitizer are the sanitizer's"
else
python3 - "$ebb" <<'PY' || fail "averages take more memory than the budget has"
import json, resource, subprocess, sys
out = subprocess.run([sys.argv[1], "train", "wide_words_exp.yaml", "--updates", "1", "--json"], capture_output=True, text=True).stdout
peak = json.loads(out.strip().split("\n")[-1])["peak_bytes"]
used = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
sys.exit(f"{used} bytes resident, {peak} of the budget" if used - peak > 40 << 20 else 0)
PY
fi

# files of an experiment: data beside it are not stored, weights are, with all that they name
export EBB_STATE=$work/state
mkdir -p stored/hf
cp one.yaml t.csv stored/
python3 - <<'PY'
import json, struct
def write(path, name, shape, values):
    head = json.dumps({name: {"dtype": "F32", "shape": shape, "data_offsets": [0, 4 * len(values)]}}).encode()
    open(path, "wb").write(struct.pack("<Q", len(head)) + head + struct.pack("<%df" % len(values), *values))
write("stored/hf/a.safetensors", "fc.weight", [1, 4], [1, 2, 3, 4])
write("stored/hf/b.safetensors", "fc.bias", [1], [5])
json.dump({"weight_map": {"fc.weight": "a.safetensors", "fc.bias": "b.safetensors"}}, open("stored/hf/model.safetensors.index.json", "w"))
PY
section '{name: csv, train_files: t.csv, val_files: t.csv, target: kind, target_kind: numbers}' '{file: one.yaml}' >stored/exp.yaml
wrong "data.train_files: 't.csv' is beside the experiment file" "$ebb" run stored/exp.yaml
for from in hf hf/model.safetensors.index.json; do
    section "{name: csv, train_files: $work/t.csv, val_files: $work/t.csv, target: kind, target_kind: numbers}" "{file: one.yaml, init_from: $from}" >stored/exp.yaml
    echo 'batches_per_step: 2' >>stored/exp.yaml
    expect 0 "$ebb" run stored/exp.yaml
done
unset EBB_STATE

# pictures and arrays that are packed in ways that are not read here
for c in train/a train/b val/a val/b; do mkdir -p folder/$c && cp large.jpg folder/$c/1.jpg; done
section '{name: imagefolder, data_dir: folder, resize: 32, crop: 32}' '{name: cifar_resnet20, blocks: [1, 1, 1], planes: 4}' >folder.yaml
wrong "this progressive JPEG needs more memory than decode_bytes gives" "$ebb" train folder.yaml --updates 1 --set hyperparameters.global_batch_size=1
wrong "lzf.h5" "$ebb" data show '{name: hdf5, train_files: lzf.h5, fields: [chunk_gzip]}'
contains err "filter 32000"

# characters beyond ASCII are told whole; parameters by themselves are shown
printf '%s\n' 'inputs: {x: [4]}' 'forward: ["return 日本(x)"]' 'loss: mse_loss' >letters.yaml
wrong "found 日, allowed:" "$ebb" model show ./letters.yaml
printf '%s\n' 'inputs: {x: [4]}' 'modules: {w: "Parameter([4], ones())"}' 'forward: ["return x * w"]' 'loss: mse_loss' >parameter.yaml
expect 0 "$ebb" model show ./parameter.yaml
grep -q "^w  *parameter  *\[4\]  *4 " out || fail "a parameter is not shown: $out"

# lines as print(model) shows them
cat >printed.yaml <<'YAML'
inputs: {x: [3, 16, 16]}
modules:
  conv1: Conv2d(3, 8, kernel_size=(3, 3), stride=(1, 1), padding=(1, 1), bias=False)
  bn1: BatchNorm2d(8, eps=1e-05, momentum=0.1, affine=True, track_running_stats=True)
  relu: ReLU(inplace=True)
  maxpool: MaxPool2d(kernel_size=3, stride=2, padding=1, dilation=1, ceil_mode=False)
  wide: Conv2d(8, 8, kernel_size=(3, 3), stride=(1, 1), padding=same, dilation=(2, 2))
  up: Upsample(scale_factor=2, mode=nearest)
  act: GELU(approximate=none)
  gn: GroupNorm(4, 8, eps=1e-05, affine=True)
  inst: InstanceNorm2d(8, eps=1e-05, momentum=0.1, affine=False, track_running_stats=False)
  avgpool: AdaptiveAvgPool2d(output_size=(1, 1))
  ln: LayerNorm((8,), eps=1e-05, elementwise_affine=True)
  plain: LayerNorm((8,), eps=1e-05, elementwise_affine=False)
  drop: Dropout(p=0.5, inplace=False)
  fc: Linear(in_features=8, out_features=10, bias=True)
forward:
  - x = maxpool(relu(bn1(conv1(x))))
  - x = inst(gn(act(up(wide(x)))))
  - x = avgpool(x).flatten(1)
  - return fc(drop(plain(ln(x))))
loss: cross_entropy
YAML
expect 0 "$ebb" model show ./printed.yaml
grep -q "^wide  *conv  *\[1, 8, 8, 8\]" out || fail "padding=same with a dilation: $(grep wide out)"
printf '%s\n' 'inputs: {x: [4, 6, 8]}' 'forward: ["s = x.shape[::2]", "return x.reshape([s[0], s[1], 8 * 4])"]' 'loss: mse_loss' >step.yaml
expect 0 "$ebb" model show ./step.yaml
python3 -c '
row = "[" + ", ".join(["1"] * 64) + "]"
lines = ["a = " + " + ".join([row] * 60)] + ["a%d = %s" % (i, " + ".join(["a"] * 1)) for i in range(3)]
big = " + ".join(["a"] * 300)
print("inputs: {x: [4]}\nforward:\n  - " + "\n  - ".join([lines[0]] + ["b = len((" + big + ")[0:9])"] * 1 + ["c%d = len(a + a[0:200])" % i for i in range(900)]) + "\n  - return x\nloss: mse_loss")' >lists.yaml
wrong "lists" "$ebb" model show ./lists.yaml

# sequences have one class: accuracy, and answers
sed -n '/^cat >make.py/,/^PY$/p' "$source_dir/tests/cli/test_train_sequences.sh" | sed '1d;$d' >sequences.py
python3 sequences.py || fail "sequences.py"
section '{name: npz, train_files: good.npz, val_files: good.npz, vocabulary: 23}' '{name: Bert, layers: 1, width: 32, heads: 2}' '{name: AdamW, lr: 0.01}' language_model >sequences.yaml
expect 0 "$ebb" train sequences.yaml --updates 60 --set hyperparameters.global_batch_size=16 --export-weights sequences.npz --json
[ "$(value validation_accuracy)" = 1 ] || fail "sequences: $(tail -1 out | head -c 300)"
grep -q perplexity out && fail "a perplexity of classes"
expect 0 "$ebb" eval sequences.yaml -w sequences.npz --confusion confusion.csv
contains out "validation_accuracy        1"

# class by class, counted again from the answers
expect 0 "$ebb" train sequences.yaml --updates 2 --set opt.lr=0.001 --no-validation --export-weights few.npz
expect 0 "$ebb" eval sequences.yaml -w few.npz --answers answers.csv --confusion confusion.csv --json
python3 - <<'PY' || fail "numbers of classes: $(head -c 400 out)"
import csv, json
said = json.load(open("out"))
rows = [(int(r["wanted"]), int(r["answered"])) for r in csv.DictReader(open("answers.csv"))]
n = len(said["classes"])
matrix = [[sum(r == (w, a) for r in rows) for a in range(n)] for w in range(n)]
assert said["confusion"] == matrix and len(rows) == said["samples"] == 64
assert [[int(v) for v in line.split(",")[1:]] for line in open("confusion.csv").read().split()[1:]] == matrix
assert abs(said["metrics"]["validation_accuracy"] - sum(w == a for w, a in rows) / 64) < 1e-9
for k, c in enumerate(said["classes"]):
    right, wanted, answered = matrix[k][k], sum(matrix[k]), sum(row[k] for row in matrix)
    assert (c["right"], c["samples"], c["answered"]) == (right, wanted, answered)
    for key, want in ("precision", right / answered if answered else None), ("recall", right / wanted if wanted else None), ("f1", 2 * right / (wanted + answered)):
        assert (c[key] is None) == (want is None) and (want is None or abs(c[key] - want) < 1e-12), (key, c, want)
PY

# hyperparameters in the section data have one of their values where data are looked at
section '{name: csv, train_files: "${file}.csv", val_files: t.csv, target: kind, train_subset: "${samples}"}' '{file: one.yaml}' |
    sed 's/global_batch_size: 4/global_batch_size: 4, file: t, samples: {type: categorical, vals: [5, 9]}/' >filled.yaml
expect 0 "$ebb" data check filled.yaml
contains out "training 5 good, 0 bad; validation 20 good, 0 bad"

# the least, and the deviation
printf '%s\n' 'inputs: {x: [4]}' 'modules: {w: "Parameter([2, 3], ones())"}' 'forward: ["return cat([x.amin(1, True), x.amax(1, True), x.std([1], keepdim=True)], 1)"]' 'loss: mse_loss' >least.yaml
python3 - <<'PY'
exec(open("make.py").read().split("values = normal(8)")[0].split("normal = ")[0])
npz("least_in.npz", x=("f", (2, 4), [1, -2, 3, 6, 0, 0, 5, -1]))
PY
expect 0 "$ebb" model eval ./least.yaml --input least_in.npz -o least.safetensors
python3 - <<'PY' || fail "amin, amax, std"
import json, struct
b = open("least.safetensors", "rb").read()
n = struct.unpack("<Q", b[:8])[0]
h = json.loads(b[8:8 + n])
at = next(v["data_offsets"] for k, v in h.items() if k.startswith("output/"))
got = struct.unpack("<6f", b[8 + n + at[0]:8 + n + at[1]])
want = [-2, 6, 3.3665016, -1, 5, 2.7080128]
assert all(abs(a - w) < 1e-5 for a, w in zip(got, want)), got
PY

# options that would do nothing
wrong "fresh zzz*: no item of the model has such a name" "$ebb" train one_exp.yaml --updates 1 --init-weights one.npz --fresh 'zzz*'
wrong "a group that changes nothing" "$ebb" train one_exp.yaml --updates 1 --set 'opt.groups=[{match: "fc.*"}]'
expect 0 "$ebb" train one_exp.yaml --updates 2 --validate-every 1 --checkpoint none --set searcher.metric=validation_iou
contains err "searcher.metric is validation_iou, which validation does not measure: the best checkpoint is not kept"
finish
