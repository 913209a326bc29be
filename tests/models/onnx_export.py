#!/usr/bin/env python3
"""Models of the zoo and of examples/models as ONNX files: what is written and read again gives the same output bits, and python3-onnx's
checker takes it. Refused are those whose ops have no form there, by name.

Usage: onnx_export.py EBB [NAME...]. Where python3-onnx is not installed, that part is left out and said so."""
import os
import subprocess
import sys
import tempfile

from train_zoo import CASES, HAND
try:
    import onnx
except ImportError:
    onnx = None

# The adaptive pools of three have a form at the sizes of their papers, not at these.
REFUSED = {"segnet": "max_unpool2d", "dtr_lstm": "lstm_cell", "unrolled_gan": "no results", "vgg16_bn": "adaptive_avg_pool2d",
           "alexnet": "adaptive_avg_pool2d", "inception_v3": "adaptive_avg_pool2d"}
SOURCE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")


def call(*args):
    return subprocess.run(args, capture_output=True, text=True)


def sets_of(options):
    sets = []
    for part in options.replace("[", "").replace("]", "").split(", "):
        if ":" in part:
            key, value = part.split(": ")
            sets += ["--set", f"{key}={value}"]
        elif part:
            sets[-1] += "," + part
    return sets


def outputs(path):
    """Names and bytes of what an evaluation wrote (safetensors)."""
    import json
    import struct
    raw = open(path, "rb").read()
    n = struct.unpack("<Q", raw[:8])[0]
    head = json.loads(raw[8:8 + n])
    return {k: raw[8 + n + v["data_offsets"][0]:8 + n + v["data_offsets"][1]] for k, v in head.items() if k.startswith("output/")}


def check(ebb, name, model, sets):
    r = call(ebb, "model", "init", model, *sets, "-o", "w.safetensors")
    r = r if r.returncode else call(ebb, "model", "export", model, *sets, "--weights", "w.safetensors", "-o", "net.onnx", "--json")
    if r.returncode:
        why = REFUSED.get(name)
        return None if why is not None and why in r.stderr else f"export: {r.stderr.strip()}"
    if onnx:
        try:
            onnx.checker.check_model("net.onnx", full_check=True)
        except Exception as e:  # whatever it does not like
            return f"checker: {e}"
    batch = "3" if '"any_batch":true' in r.stdout.replace(" ", "") else "1"
    r = call(ebb, "model", "eval", model, *sets, "--weights", "w.safetensors", "--batch", batch, "-o", "in.npz")
    s = call(ebb, "model", "eval", model, *sets, "--weights", "w.safetensors", "--batch", batch, "-o", "a.safetensors")
    if r.returncode or s.returncode:
        return f"eval: {r.stderr}{s.stderr}"
    rename(("in.npz", "x.npz"))
    r = call(ebb, "model", "eval", "net.onnx", "--input", "x.npz", "-o", "b.safetensors")
    if r.returncode:
        return f"read again: {r.stderr.strip()}"
    a, b = outputs("a.safetensors"), outputs("b.safetensors")
    other = [k for k in b if a.get(k.replace("next_", "")) != b[k]]
    return f"other bits: {', '.join(other)}" if other or not b else ""


def rename(files):
    """Inputs under their own names."""
    import zipfile
    with zipfile.ZipFile(files[0]) as old, zipfile.ZipFile(files[1], "w") as new:
        for name in old.namelist():
            if name.startswith("input/"):
                new.writestr(name[len("input/"):], old.read(name))


def main():
    ebb, wanted = os.path.abspath(sys.argv[1]), sys.argv[2:]
    rows = [(n, n, sets_of(o)) for n, o, _, _ in CASES]
    rows += [(f"examples/{h[0]}", os.path.join(SOURCE, "examples", "models", h[0] + ".yaml"), sets_of(h[1])) for h in HAND]
    passed = failed = refused = 0
    if not onnx:
        print("python3-onnx is not installed: its checker is left out")
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for name, model, sets in rows:
            if wanted and name not in wanted:
                continue
            problem = check(ebb, name, model, sets)
            passed += problem == ""
            refused += problem is None
            failed += bool(problem)
            if problem:
                print(f"FAIL {name}: {problem}", flush=True)
    print(f"{passed} passed, {failed} failed, {refused} refused")
    sys.exit(bool(failed) or not passed)


main()
