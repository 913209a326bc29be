# data.bad_samples: a sample that cannot be read ends a run, or has another in its place; counted, named, the same at any number of workers.
# $1 = the ebb program, $2 = source folder
. "$2/tests/cli/common.sh"

mkdir -p folder/train/a folder/train/b folder/val/a folder/val/b
for i in 1 2 3 4 5 6; do
    for c in train/a train/b val/a val/b; do cp "$source_dir/tests/golden/data/progressive.jpg" folder/$c/$i.jpg; done
done
head -c 300 folder/train/a/3.jpg >short && mv short folder/train/a/3.jpg
: >folder/train/b/2.jpg
: >folder/val/b/1.jpg
cat >exp.yaml <<YAML
entrypoint: ebb:image_classification
data: {name: imagefolder, data_dir: $work/folder, resize: 16, crop: 16}
model: {name: cifar_resnet20}
hyperparameters: {global_batch_size: 4}
opt: {name: SGD, lr: 0.001}
searcher: {name: single, metric: validation_accuracy, max_steps: 1}
YAML
expect 2 "$ebb" train exp.yaml --updates 6
expect 2 "$ebb" train exp.yaml --updates 6 --set data.bad_samples=maybe
contains err "allowed: refuse, skip"
expect 0 "$ebb" train exp.yaml --updates 6 --set data.bad_samples=skip
contains out "3 samples could not be read, others took their places"
contains out "train/a/3.jpg"
contains out "train/b/2.jpg: byte 0: the file is empty"
contains out "val/b/1.jpg: byte 0: the file is empty"
hash() { sed -n 's/.*sha256 //p' out; }
first=$(hash)
expect 0 "$ebb" train exp.yaml --updates 6 --set data.bad_samples=skip --workers 0
[ "$(hash)" = "$first" ] || fail "other weights without workers"
expect 0 "$ebb" train exp.yaml --updates 6 --set data.bad_samples=skip --workers 5 --json
[ "$(value bad_samples)" = 3 ] || fail "bad_samples in JSON: $(tail -n 1 out)"
[ "$(value weights_sha256)" = "$first" ] || fail "other weights with five workers"
sed "s/crop: 16/crop: 16, bad_samples: skip/" exp.yaml >skip.yaml
expect 1 "$ebb" data check skip.yaml
contains out "10 good, 2 bad"
for f in folder/train/*/*.jpg; do : >"$f"; done
expect 2 "$ebb" train exp.yaml --updates 1 --set data.bad_samples=skip
finish
