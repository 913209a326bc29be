#!/usr/bin/env python3
"""suite.py DIR PART...: the parts of `run`, which says what they are; DIR is an unpacked bundle. A row for each training, with the memory
that the driver sees.

Exit 1 when a part fails, weights differ or more than the budget and the reserve that ebb names is taken."""
import glob
import json
import os
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
OUT = os.environ.get("OUT", ".")
GPT2 = os.path.join(HERE, "gpt2.yaml")
GIB = 1 << 30
failures, table = [], []


def say(text):
    table.append(text)
    print(text, flush=True)


def train(ebb, path, *more, limit=150):
    """The last line of a run, with the most that the driver saw while it ran."""
    watch = subprocess.Popen(["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits", "-lms", "50"],
                             stdout=subprocess.PIPE, text=True)
    begin = time.time()
    try:
        r = subprocess.run([ebb, "train", path, "--no-validation", "--json", *more], capture_output=True, text=True, timeout=limit)
    except subprocess.TimeoutExpired:
        r = None
    watch.terminate()
    seen = max((int(line) for line in watch.communicate()[0].split() if line.isdigit()), default=0) << 20
    if r is None or r.returncode:
        return {"error": "too long" if r is None else r.stderr.strip()[-300:]}
    return {**json.loads(r.stdout.strip().splitlines()[-1]), "driver_bytes": seen, "wall": time.time() - begin}


def show(name, row):
    if "error" in row:
        failures.append(name)
        say(f"{name:34} failed: {row['error']}")
        return
    over = row["driver_bytes"] - (row["budget_bytes"] or row["peak_bytes"])
    if over > row["device_reserve_bytes"]:
        failures.append(name + ": reserve")
    say(f"{name:34} {row['update_ms']:8.2f} ms predicted {row['predicted_ms']:8.2f} ({row['predicted_ms'] / row['update_ms'] - 1:+.1%}) "
        f"peak {row['peak_bytes'] / GIB:6.2f} driver {row['driver_bytes'] / GIB:6.2f} GiB (+{over / GIB:.2f}) remat {row['remat_ops']:5d} "
        f"swapped {row['swapped_bytes'] / GIB:5.2f} loss {row['loss']:.4f} {row['weights_sha256'][:12]} {row['wall']:.0f} s")


def same(name, rows):
    hashes = {row.get("weights_sha256") for row in rows}
    say(f"{name}: {len(rows)} runs, {len(hashes)} kind{'s' if len(hashes) > 1 else ''} of weights")
    if len(hashes) != 1:
        failures.append(name + ": weights differ")


def command(name, words, limit, allowed=(0,), lines=3):
    """Runs it, its output in OUT/log.txt; the last lines of it are told."""
    begin = time.time()
    with tempfile.TemporaryFile("w+") as f:
        try:
            code = subprocess.run(words, stdout=f, stderr=subprocess.STDOUT, timeout=limit).returncode
        except (subprocess.TimeoutExpired, OSError) as e:
            code = str(e)[:80]
        f.seek(0)
        text = f.read().strip().splitlines()
    with open(os.path.join(OUT, "log.txt"), "a") as f:
        f.write("\n".join([f"=== {name}: {' '.join(words)}", *text, ""]))
    for line in [x for x in text if "FAIL" in x][:10] + text[-lines:]:
        say(f"{name}: {line[:220]}")
    if code not in allowed:
        failures.append(f"{name}: exit {code}")
    say(f"{name}: exit {code}, {time.time() - begin:.0f} s")
    return code == 0


def peers(*names, steps=50, limit=330):
    command("peers " + names[0].split(":")[0], [sys.executable, os.path.join(HERE, "peers.py"), *names, "--steps", str(steps)], limit, lines=len(names))


def check(ebb):
    folder = os.path.dirname(ebb)
    for name in ("engine", "more"):
        command("golden " + name, [ebb, "dev", "golden", os.path.join(ROOT, "tests", "golden", name), "--device", "cuda"], 120, lines=1)
    command("check_table", [os.path.join(folder, "check_table"), "8"], 200, lines=1)
    tool = next(iter(glob.glob("/usr/local/cuda*/bin/compute-sanitizer")), None)
    if not tool:
        say("sanitizer: not installed")
        return
    for kind in ("memcheck", "synccheck"):
        command("sanitizer " + kind, [tool, "--tool", kind, "--error-exitcode", "9", os.path.join(folder, "check_table"), "1"], 120, lines=2)
    with open("small.yaml", "w") as f:
        f.write(open(GPT2).read().replace("dropout: 0.0}", "dropout: 0.0, layers: 2, width: 128, heads: 2}").replace("sequence_length: 1024", "sequence_length: 64"))
    command("sanitizer training", [tool, "--error-exitcode", "9", ebb, "train", "small.yaml", "--updates", "3", "--no-validation", "--budget", "300MiB",
                                   "--host", "256MiB"], 120, lines=2)


FUSED = ("residual", "addend", "bias")


def fused(ebb):
    """Each by itself, all, none, twice: what a fused op is worth."""
    def go(name, rewrites, *more):
        row = train(ebb, GPT2, "--updates", "40", "--rewrites", rewrites, *more)
        show(name, row)
        return row
    none = "+head," + ",".join("-" + f for f in FUSED)
    for k in range(2):
        go("gpt2 nothing fused", none)
        for f in FUSED:
            go("gpt2 " + f, none.replace("-" + f, "+" + f))
        go("gpt2 all fused", "+head")
    new = os.path.join(OUT, "new.device")
    if os.path.exists(new):
        for k in range(2):
            go("gpt2 all fused, measured", "+head", "--costs", new)
            go("gpt2 all fused", "+head")


def measure(ebb):
    """In two files: what matters is which algorithms products take."""
    with open("xl.yaml", "w") as f:
        f.write(open(GPT2).read().replace("gpt2_124M", "gpt2_1558M").replace("global_batch_size: 32", "global_batch_size: 16"))
    command("measure", [ebb, "device", "measure", GPT2, "xl.yaml", pictures(), "--device", "cuda", "-o", os.path.join(OUT, "new.device")], 200, lines=8)


def gpt2(ebb):
    rows = []
    for budget in ("unlimited", "12GiB", "9.1GiB", "8.6GiB", "7.3GiB", "5GiB", "4GiB", "3GiB"):
        rows.append(train(ebb, GPT2, "--updates", "50", "--budget", budget))
        show("gpt2 " + budget, rows[-1])
    same("gpt2", rows)
    peers("gpt2:compile", "gpt2:compile-0.3", "gpt2:chunk", "gpt2:chunk-0.5", "gpt2:chunk-0.4", "gpt2:chunk-0.1")


def xl(ebb):
    rows = []
    for budget in ("unlimited", "31GiB", "27GiB"):
        rows.append(train(ebb, GPT2, "--updates", os.environ.get("XL_UPDATES", "50"), "--budget", budget, "--set", "model.name=gpt2_1558M", "--set",
                          "hyperparameters.global_batch_size=16"))
        show("xl " + budget, rows[-1])
    same("xl", rows)
    peers("xl:eager", "xl:checkpoint", "xl:offload", steps=12)


def curves(ebb):
    command("curves", [sys.executable, os.path.join(HERE, "curves.py"), ebb, OUT], 300, lines=3)
    for name in ("text.bin", "w.safetensors", "ebb.csv", "curves.yaml"):
        if os.path.exists(os.path.join(OUT, name)):
            os.remove(os.path.join(OUT, name))


def big(ebb):
    """State in host memory; the hash reads 66 GB back."""
    row = train(ebb, os.path.join(HERE, "gpt_16b.yaml"), "--updates", "5", "--budget", os.environ.get("BIG_BUDGET", "131GiB"), "--host",
                os.environ.get("BIG_HOST", "80GiB"), limit=300)
    show("gpt of 16.5e9", row)
    if "error" not in row:
        say(f"gpt of 16.5e9: {4 * 1024 / row['update_ms'] * 1e3:.0f} tokens per second")


def bench(ebb):
    command("bench", [ebb, "bench", "-c", os.path.join(ROOT, "examples", "bench", "cosmoflow.yaml"), "--device", "cuda", "--t_subset_size", "64", "--v_subset_size", "16", "-gbs", "8", "--set",
                      "data.n_epochs=1", "--json"], 120, allowed=(0, 1), lines=6)


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
    for budget in ("unlimited", "8GiB", "6.1GiB", "4GiB", "3GiB", "2GiB"):
        rows.append(train(ebb, path, "--updates", "50", "--budget", budget))
        show("resnet50 " + budget, rows[-1])
    same("resnet50", rows)
    peers("resnet:compile", "resnet:compile-0.3", limit=240)


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
    for policy in ("dtr_eq", "belady", "capuchin", "unified"):
        add(f"{policy} {host[0]}, host", "--policy", policy, "--budget", host[0], "--host", "4GiB")
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


def dense(ebb):
    """Joined channels: DenseNet-121, 64 images as bytes from a file."""
    path, rows = pictures(), []
    more = ("--updates", "50", "--set", "model.name=densenet121", "--set", "hyperparameters.global_batch_size=64")
    for budget in ("unlimited", "2GiB"):
        rows.append(train(ebb, path, *more, "--budget", budget))
        show("densenet121 " + budget, rows[-1])
    same("densenet121", rows)


def zoo(ebb):
    wanted = os.environ.get("ZOO")
    for name, options, task, data, batch, precision in ZOO:
        if wanted and name not in wanted.split(","):
            continue
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


PARTS = {"check": check, "fused": fused, "measure": measure, "gpt2": gpt2, "same": everything, "images": images, "xl": xl, "curves": curves,
         "dense": dense, "zoo": zoo, "big": big, "bench": bench}


def main():
    if len(sys.argv) < 3 or any(p not in PARTS for p in sys.argv[2:]):
        sys.exit(__doc__)
    ebb = os.path.join(os.path.abspath(sys.argv[1]), "ebb")
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for part in sys.argv[2:]:
            begin = time.time()
            PARTS[part](ebb)
            say(f"### {part}: {time.time() - begin:.0f} s")
        os.chdir("/")
    for name in failures:
        say("FAILED " + name)
    with open(os.path.join(OUT, "table.txt"), "a") as f:
        f.write("\n".join(table) + "\n")
    sys.exit(bool(failures))


if __name__ == "__main__":
    main()
