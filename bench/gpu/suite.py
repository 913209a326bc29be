#!/usr/bin/env python3
"""suite.py EBB PART...: what ebb does on this machine's GPU, a row each, with the memory that the driver sees.

  images  ResNet-50, 256 images as bytes from a file, at several budgets
  same    GPT-2 124M and ResNet-50: five processes, five budgets, op by op, with a host tier: the same weights
  zoo     other networks at full size, seven updates each (one eager, one captured, the others replayed) without a limit and in less: the
          same weights

Exit 1 when weights differ or more than the budget and the reserve that ebb names is taken."""
import json
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
GIB = 1 << 30
failures = []


def train(ebb, path, *more, limit=150):
    """The last line of a run, with the most that the driver saw while it ran."""
    watch = subprocess.Popen(["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits", "-lms", "50"],
                             stdout=subprocess.PIPE, text=True)
    try:
        r = subprocess.run([ebb, "train", path, "--no-validation", "--json", *more], capture_output=True, text=True, timeout=limit)
    except subprocess.TimeoutExpired:
        r = None
    watch.terminate()
    seen = max((int(line) for line in watch.communicate()[0].split() if line.isdigit()), default=0) << 20
    if r is None or r.returncode:
        return {"error": "too long" if r is None else r.stderr.strip()[-300:]}
    return {**json.loads(r.stdout.strip().splitlines()[-1]), "driver_bytes": seen}


def show(name, row):
    if "error" in row:
        failures.append(name)
        print(f"{name:34} failed: {row['error']}", flush=True)
        return
    over = row["driver_bytes"] - (row["budget_bytes"] or row["peak_bytes"])
    if over > row["device_reserve_bytes"]:
        failures.append(name + ": reserve")
    print(f"{name:34} {row['update_ms']:8.2f} ms predicted {row['predicted_ms']:8.2f} peak {row['peak_bytes'] / GIB:6.2f} driver {row['driver_bytes'] / GIB:6.2f} "
          f"GiB (+{over / GIB:.2f}) remat {row['remat_ops']:5d} swapped {row['swapped_bytes'] / GIB:5.2f} loss {row['loss']:.4f} {row['weights_sha256'][:12]}", flush=True)


def same(name, rows):
    hashes = {row.get("weights_sha256") for row in rows}
    print(f"{name}: {len(rows)} runs, {len(hashes)} kind{'s' if len(hashes) > 1 else ''} of weights", flush=True)
    if len(hashes) != 1:
        failures.append(name + ": weights differ")


def pictures():
    import numpy as np
    random = np.random.default_rng(0)
    np.save("x.npy", random.integers(0, 256, (1024, 3, 224, 224), dtype=np.uint8))
    labels = random.integers(0, 1000, 1024)
    labels[0] = 999
    np.save("y.npy", labels)
    with open(os.path.join(HERE, "images.yaml")) as f, open("images.yaml", "w") as g:
        g.write(f.read())
    return "images.yaml"


def images(ebb):
    path, rows = pictures(), []
    for budget in ("unlimited", "6.1GiB", "4GiB", "3GiB"):
        rows.append(train(ebb, path, "--updates", "50", "--budget", budget))
        show("resnet50 " + budget, rows[-1])
    same("resnet50", rows)


def matrix(ebb, name, path, budgets, host):
    rows = []

    def add(what, *more):
        rows.append(train(ebb, path, "--updates", "20", *more))
        show(f"{name} {what}", rows[-1])
    for k in range(5):
        add(f"process {k + 1}")
    for budget in budgets:
        add(budget, "--budget", budget)
    add("op by op", "--profile", "op.profile")
    add(f"op by op {budgets[2]}", "--profile", "op.profile", "--budget", budgets[2])
    for budget in host:
        add(f"{budget} and 4 GiB of host memory", "--budget", budget, "--host", "4GiB")
    same(name, rows)


def everything(ebb):
    matrix(ebb, "gpt2", os.path.join(HERE, "gpt2.yaml"), ("9.1GiB", "7.3GiB", "5GiB", "4GiB", "3GiB"), ("5GiB", "3GiB"))
    matrix(ebb, "resnet50", pictures(), ("8GiB", "6.1GiB", "4GiB", "3GiB", "2GiB"), ("3GiB",))


# name, options, task, data, batch, precision
ZOO = [
    ("densenet121", "", "image_classification", "{name: imagefolder, data_dir: synthetic, image_dtype: u8, samples: 1024, val_samples: 64, workers: 14}", 64, "bf16"),
    ("unet", "", "segmentation", "{name: unet, samples: 64, val_samples: 8, workers: 14}", 8, "bf16"),
    ("deepcam", "", "segmentation", "{name: deepcam, data_dir: synthetic, samples: 16, val_samples: 2, workers: 14}", 2, "bf16"),
    ("bert_large", "", "language_model", "{name: bert, data_dir: synthetic, sequence_length: 512, samples: 256, val_samples: 16, workers: 4}", 16, "bf16"),
    ("cosmoflow", "", "regression", "{name: cosmoflow, data_dir: synthetic, samples: 32, val_samples: 4, workers: 14}", 4, "bf16"),
    ("wlm_lstm", "", "language_model", "{name: language, sequence_length: 35, vocabulary: 10000, samples: 1024, val_samples: 32}", 32, "fp32"),
    ("dtr_treelstm", "", "regression", None, 16, "fp32"),
    ("unrolled_gan", "", "gan", None, 256, "fp32"),
]


def zoo(ebb):
    for name, options, task, data, batch, precision in ZOO:
        with open(name + ".yaml", "w") as f:
            f.write(f"description: {name}\nentrypoint: ebb:{task}\n" + (f"data: {data}\n" if data else "") +
                    f"model: {{name: {name}{', ' + options if options else ''}}}\nhyperparameters: {{global_batch_size: {batch}}}\n"
                    f"opt: {{name: SGD, lr: 0.01, momentum: 0.9}}\nmemory: {{precision: {precision}, device: cuda}}\n"
                    "searcher: {name: single, metric: validation_loss, max_steps: 1}\n")
        rows = [train(ebb, name + ".yaml", "--updates", "7")]
        show(f"{name} {precision} {batch}", rows[0])
        if "error" in rows[0]:
            continue
        floor, peak = rows[0]["floor_bytes"], rows[0]["peak_bytes"]
        less = ("--budget", str(floor + (peak - floor) * 2 // 5))
        rows.append(train(ebb, name + ".yaml", "--updates", "7", *less))
        show(f"{name} {precision} {batch}, less", rows[1])
        if name == "dtr_treelstm":  # so many ops that planning is short of time: what a policy does
            rows.append(train(ebb, name + ".yaml", "--updates", "7", "--policy", "lru", *less))
            show(f"{name} {precision} {batch}, less, lru", rows[2])
        same(name, rows)


def main():
    parts = {"images": images, "same": everything, "zoo": zoo}
    if len(sys.argv) < 3 or any(p not in parts for p in sys.argv[2:]):
        sys.exit(__doc__)
    ebb = os.path.abspath(sys.argv[1])
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for part in sys.argv[2:]:
            parts[part](ebb)
        os.chdir("/")
    for name in failures:
        print("FAILED", name)
    sys.exit(bool(failures))


if __name__ == "__main__":
    main()
