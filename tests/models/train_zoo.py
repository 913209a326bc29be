#!/usr/bin/env python3
"""Models of the zoo, trained for three updates without a limit, at their floor and in between: the weights must be the same bits,
and the peak must stay in the budget.

Usage: train_zoo.py EBB [--precision fp32|bf16|fp16] [NAME...] (no names: all)."""
import json
import os
import subprocess
import sys
import tempfile

LM = "vocabulary: 61, positions: 16, length: 8, width: 16, layers: 2, heads: 2"
TOKENS = "{name: tokens, data_dir: synthetic, sequence_length: 8, vocabulary: 61, samples: 64, val_samples: 8}"
BERT = "{name: bert, data_dir: synthetic, sequence_length: 8, vocabulary: 1100, samples: 32, val_samples: 4}"
MASKS = "{name: deepcam, data_dir: synthetic, height: 32, width: 32, samples: 16, val_samples: 2}"
SEGMENT = "planes: 4, height: 32, width: 32, channels: 16, classes: 3, full: true"


def images(size):
    return f"{{name: imagefolder, data_dir: synthetic, resize: {size}, crop: {size}, classes: 10, samples: 64, val_samples: 8}}"


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


def train(ebb, path, *more):
    r = subprocess.run([ebb, "train", path, "--updates", "3", "--no-validation", "--threads", "1", "--json", *more],
                       capture_output=True, text=True)
    if r.returncode:
        raise RuntimeError(r.stderr.strip() or r.stdout.strip())
    return json.loads(r.stdout.strip().splitlines()[-1])


def write(path, case, precision):
    name, options, task, data = case
    with open(path, "w") as f:
        f.write(f"description: {name}\nentrypoint: ebb:{task}\n" + (f"data: {data}\n" if data else "") +
                f"model: {{name: {name}, {options}}}\nhyperparameters: {{global_batch_size: 4}}\n"
                f"opt: {{name: SGD, lr: 0.01, momentum: 0.9}}\nmemory: {{precision: {precision}}}\n"
                "searcher: {name: single, metric: validation_loss, max_steps: 1}\n")


def check(ebb, path, case, precision):
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
    return ""


def main():
    ebb, wanted, precision = sys.argv[1], sys.argv[2:], "fp32"
    if wanted and wanted[0] == "--precision":
        precision, wanted = wanted[1], wanted[2:]
    passed = failed = 0
    with tempfile.TemporaryDirectory() as folder:
        for case in CASES:
            if wanted and case[0] not in wanted:
                continue
            try:
                problem = check(ebb, os.path.join(folder, "model.yaml"), case, precision)
            except RuntimeError as e:
                problem = str(e)
            failed += bool(problem)
            passed += not problem
            if problem:
                print(f"FAIL {case[0]}: {problem}")
    print(f"{passed} passed, {failed} failed")
    sys.exit(bool(failed) or not passed)


if __name__ == "__main__":
    main()
