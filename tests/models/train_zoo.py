#!/usr/bin/env python3
"""Models of the zoo, trained for three updates without a limit, at their floor and in between: the weights must be the same bits,
and the peak must stay in the budget.

With --files each is also written as a model file (ebb model show --as-file) and trained from that at its floor, to the same bits;
so are the networks of examples/models, which are models of the zoo written by hand. EBB_TEST_LONG=1: those train for ten updates,
and files without a limit as well.

Usage: train_zoo.py EBB [--files] [--precision fp32|bf16|fp16] [NAME...] (no names: all)."""
import json
import os
import subprocess
import sys
import tempfile

LONG = os.environ.get("EBB_TEST_LONG") == "1"
LM = "vocabulary: 61, positions: 16, length: 8, width: 16, layers: 2, heads: 2"
TOKENS = "{name: tokens, data_dir: synthetic, sequence_length: 8, vocabulary: 61, samples: 64, val_samples: 8}"
BERT = "{name: bert, data_dir: synthetic, sequence_length: 8, vocabulary: 1100, samples: 32, val_samples: 4}"
MASKS = "{name: deepcam, data_dir: synthetic, height: 32, width: 32, samples: 16, val_samples: 2}"
SEGMENT = "planes: 4, height: 32, width: 32, channels: 16, classes: 3, full: true"


def images(size):
    return f"{{name: imagefolder, data_dir: synthetic, resize: {size}, crop: {size}, classes: 10, samples: 16, val_samples: 8}}"


def words(n):
    return f"{{name: tokens, data_dir: synthetic, sequence_length: {n}, vocabulary: 50, samples: 64, val_samples: 8}}"


def sized(size, more):
    return f"height: {size}, width: {size}, classes: 10, {more}"


# name, options, task, data (None: the model makes its inputs)
CASES = [
    ("cifar_resnet20", sized(16, "blocks: [1, 2, 1], planes: 4"), "image_classification", images(16)),
    ("resnet50", sized(32, "blocks: [1, 1, 1, 1], planes: 4"), "image_classification", images(32)),
    ("resnet50_epcc", sized(32, "blocks: [1, 1, 1, 1], planes: 4"), "image_classification", images(32)),
    ("densenet121", sized(64, "blocks: [2, 2, 2, 2], growth: 4, planes: 8"), "image_classification", images(64)),
    ("densenet_bc_100_12", sized(16, "blocks: [2, 2, 2], growth: 4, planes: 8"), "image_classification", images(16)),
    ("inception_v3", sized(75, "shrink: 16"), "image_classification", images(75)),
    ("inception_v4", sized(75, "shrink: 16"), "image_classification", images(75)),
    ("googlenet", sized(64, "shrink: 16"), "image_classification", images(64)),
    ("mobilenet_v1", sized(32, "shrink: 8"), "image_classification", images(32)),
    ("mobilenet_v2", sized(32, "shrink: 8"), "image_classification", images(32)),
    ("mnasnet1_0", sized(32, "shrink: 8"), "image_classification", images(32)),
    ("shufflenet_v2_x1_0", sized(32, "shrink: 4"), "image_classification", images(32)),
    ("vgg16_bn", sized(32, "planes: 4, hidden: 16"), "image_classification", images(32)),
    ("alexnet", sized(64, "planes: 4, hidden: 16"), "image_classification", images(64)),
    ("squeezenet1_1", sized(32, "planes: 16"), "image_classification", images(32)),
    ("linear", sized(8, "layers: 3, planes: 4"), "image_classification", images(8)),
    ("unet", "planes: 4, depth: 2, height: 17, width: 20", "segmentation",
     "{name: unet, height: 17, width: 20, samples: 64, val_samples: 8}"),
    ("vgg_unet", SEGMENT, "segmentation", MASKS),
    ("segnet", SEGMENT + ", unpool: true", "segmentation", MASKS),
    ("fcn8", SEGMENT + ", hidden: 16", "segmentation", MASKS),
    ("deepcam", "shrink: 32, middle: 1, height: 32, width: 32", "segmentation", MASKS),
    ("cosmoflow", "size: 8, planes: 2, layers: 2, hidden: [8, 4]", "regression",
     "{name: cosmoflow, data_dir: synthetic, size: 8, samples: 16, val_samples: 2}"),
    ("wlm_lstm", "vocabulary: 50, length: 6, embedding: 8, hidden: 12", "language_model", words(6)),
    ("wlm_gru", "vocabulary: 50, length: 6, embedding: 8, hidden: 12", "language_model", words(6)),
    ("wlm_transformer", "vocabulary: 50, length: 6, width: 8, hidden: 8", "language_model", words(6)),
    ("gpt2_124M", LM + ", dropout: 0.1", "language_model", TOKENS),
    ("gpt3_epcc_13B", LM, "language_model", TOKENS),
    ("GPT2_1B", LM + ", head: tokens", "language_model", TOKENS),
    ("bert_base", LM.replace("61", "1100"), "language_model", BERT),
    ("transformer_12_6", "length: 6, target_length: 4, width: 8, hidden: 16, heads: 2, encoder_layers: 2, decoder_layers: 2",
     "regression", None),
    ("testBERT", "length: 4, width: 8, layers: 2, heads: 2, classes: 10", "regression", None),
    ("dtr_lstm", "features: 5, memory: 6, steps: 6", "regression", None),
    ("dtr_treelstm", "features: 5, memory: 6, depth: 3", "regression", None),
    ("unrolled_gan", "noise: 4, hidden: 6, unroll: 3", "gan", None),
]


# files of examples/models with what the zoo calls the same
HAND = [
    ("resnet20", "", "cifar_resnet20", "", "image_classification", images(32)),
    ("unet", "", "unet", "planes: 16, depth: 3", "segmentation", "{name: unet, height: 33, width: 48, samples: 64, val_samples: 8}"),
    ("gpt", "vocabulary: 40", "gpt2_124M", "vocabulary: 40, layers: 2, width: 96, heads: 4, dropout: 0.1, length: 16, positions: 64",
     "language_model", "{name: language, vocabulary: 40, sequence_length: 16, samples: 400, val_samples: 16}"),
    ("lstm", "", "wlm_lstm", "embedding: 32, hidden: 32, dropout: 0.1", "language_model",
     "{name: language, vocabulary: 40, sequence_length: 16, samples: 400, val_samples: 16}"),
]


def train(ebb, path, *more):
    r = subprocess.run([ebb, "train", path, "--updates", "3", "--no-validation", "--threads", "1", "--json", *more],
                       capture_output=True, text=True)
    if r.returncode:
        raise RuntimeError(r.stderr.strip() or r.stdout.strip())
    return json.loads(r.stdout.strip().splitlines()[-1])


def write(path, case, precision, model=None):
    name, options, task, data = case
    section = ", ".join(p for p in (model or f"name: {name}", options) if p)
    with open(path, "w") as f:
        f.write(f"description: {name}\nentrypoint: ebb:{task}\n" + (f"data: {data}\n" if data else "") +
                f"model: {{{section}}}\nhyperparameters: {{global_batch_size: 4}}\n"
                f"opt: {{name: SGD, lr: 0.01, momentum: 0.9}}\nmemory: {{precision: {precision}}}\n"
                "searcher: {name: single, metric: validation_loss, max_steps: 1}\n")


def write_file(ebb, folder, case):
    """The model of a case as a file, and the case that trains it."""
    name, options, task, data = case
    sets = []
    for part in options.replace("[", "").replace("]", "").split(", "):
        if ":" in part:
            key, value = part.split(": ")
            sets += ["--set", f"{key}={value}"]
        elif part:
            sets[-1] += "," + part
    if data:  # what the data set would say
        shown = subprocess.run([ebb, "data", "show", data, "--json"], capture_output=True, text=True)
        info = json.loads(shown.stdout) if shown.returncode == 0 else {}
        known = json.loads(subprocess.run([ebb, "model", "show", name, *sets, "--json"], capture_output=True, text=True).stdout)["options"]
        given = {s.split("=")[0] for s in sets if "=" in s}
        for key in ("channels", "height", "width", "classes", "vocabulary"):
            if key in known and key not in given and info.get(key, 0):
                sets += ["--set", f"{key}={info[key]}"]
        if "length" in known and "length" not in given and info.get("sequence", 0):
            sets += ["--set", f"length={info['sequence']}"]
        if name == "cosmoflow":
            sets += ["--set", "channels=4"]
    r = subprocess.run([ebb, "model", "show", name, *sets, "--as-file"], capture_output=True, text=True)
    if r.returncode:
        raise RuntimeError(r.stderr.strip())
    with open(os.path.join(folder, "net.yaml"), "w") as f:
        f.write(r.stdout)
    return ("net", "", task, data)


def check_file(ebb, path, case, precision, zoo):
    made = write_file(ebb, os.path.dirname(path), case)
    write(path, made, precision, "file: net.yaml")
    if LONG and train(ebb, path)["weights_sha256"] != zoo["weights_sha256"]:
        return "other weights from its file"
    tight = train(ebb, path, "--budget", str(zoo["floor_bytes"]))
    return "" if tight["weights_sha256"] == zoo["weights_sha256"] else "other weights from its file at the floor"


def check_hand(ebb, path, row, precision, files):
    file, more, name, options, task, data = row
    updates = "10" if LONG else "3"
    write(path, (name, options, task, data), precision)
    zoo = train(ebb, path, "--updates", updates)
    source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "examples", "models", file + ".yaml")
    write(path, (file, more, task, data), precision, f"file: {os.path.abspath(source)}")
    own = train(ebb, path, "--updates", updates)
    tight = train(ebb, path, "--updates", updates, "--budget", str(own["floor_bytes"]))
    same = zoo["weights_sha256"] == own["weights_sha256"] == tight["weights_sha256"]
    return "" if same else "other weights than the zoo's"


def check(ebb, path, case, precision, files):
    write(path, case, precision)
    free = train(ebb, path)
    floor = free["floor_bytes"]
    for share in (0.0, 0.4):
        budget = int(floor + max(0, free["peak_bytes"] - floor) * share) // 256 * 256
        tight = train(ebb, path, "--budget", str(budget), "--policy", "dtr_eq")
        if tight["weights_sha256"] != free["weights_sha256"]:
            return f"other weights in {budget} bytes"
        if tight["peak_bytes"] > budget:
            return f"peak {tight['peak_bytes']} of {budget} bytes"
    return check_file(ebb, path, case, precision, free) if files and case[2] != "gan" else ""


def main():
    ebb, wanted, precision = sys.argv[1], sys.argv[2:], "fp32"
    files = bool(wanted) and wanted[0] == "--files"
    wanted = wanted[files:]
    if wanted and wanted[0] == "--precision":
        precision, wanted = wanted[1], wanted[2:]
    passed = failed = 0
    with tempfile.TemporaryDirectory() as folder:
        work = [(c[0], check, c) for c in CASES]
        if files:
            work += [(r[0], check_hand, r) for r in HAND]
        for name, judge, case in work:
            if wanted and name not in wanted:
                continue
            try:
                problem = judge(ebb, os.path.join(folder, "model.yaml"), case, precision, files)
            except RuntimeError as e:
                problem = str(e)
            failed += bool(problem)
            passed += not problem
            if problem:
                print(f"FAIL {name}: {problem}")
    print(f"{passed} passed, {failed} failed")
    sys.exit(bool(failed) or not passed)


if __name__ == "__main__":
    main()
