#!/usr/bin/env python3
"""The zoo against torch: names and shapes of every weight, initial values of `rng: torch`, outputs in evaluation.

Usage: torch_reference.py EBB [NAME...]. Exit 77 when torch is not installed. The networks are in torch_modules.py
and torch_functions.py."""
import json
import os
import struct
import subprocess
import sys
import tempfile

try:
    import torch
    from torch import nn
except ImportError:
    print("torch is not installed: nothing compared")
    sys.exit(77)

from torch_functions import (alexnet, bert, deepcam, densenet_bc, dtr_lstm, dtr_tree, googlenet, inception_v3,
                             inception_v4, mnasnet, mobilenet_v1, segmentation, shufflenet, squeezenet)
from torch_modules import (GPT, VGG, CosmoFlow, DenseNet, MobileNetV2, Pair, ResNet, UNet, Words, WordTransformer)

torch.set_num_threads(1)
TYPES = {"F32": (torch.float32, "f"), "I64": (torch.int64, "q")}


def read(path):
    with open(path, "rb") as f:
        n = struct.unpack("<Q", f.read(8))[0]
        header = json.loads(f.read(n))
        data = f.read()
    out = {}
    for name, h in header.items():
        if name != "__metadata__":
            a, b = h["data_offsets"]
            raw = bytearray(data[a:b])
            t = torch.frombuffer(raw, dtype=TYPES[h["dtype"]][0]) if b > a else torch.empty(0)
            out[name] = t.reshape(h["shape"]).clone()
    return out


def write(path, tensors):
    header, blobs, at = {}, [], 0
    for name in sorted(tensors):
        t = tensors[name].detach().contiguous()
        blob = t.numpy().tobytes()
        header[name] = {"dtype": "I64" if t.dtype == torch.int64 else "F32", "shape": list(t.shape),
                        "data_offsets": [at, at + len(blob)]}
        blobs.append(blob)
        at += len(blob)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + b"".join(blobs))


# ---- comparing ---------------------------------------------------------------------------------------------------

# name, options, module, tolerance of initial values (None: not compared), inputs in order
CASES = [
    ("cifar_resnet20", "blocks=1,2,1 planes=8 height=8 width=8",
     lambda: ResNet([1, 2, 1], 8, False, "cifar", 10, "fan_in"), 2e-6),
    ("resnet18", "blocks=1,2,1,1 planes=8 height=32 width=32 classes=10",
     lambda: ResNet([1, 2, 1, 1], 8, False, "imagenet", 10, "fan_out"), 2e-6),
    ("resnet50", "blocks=1,2,1,1 planes=8 height=32 width=32 classes=10",
     lambda: ResNet([1, 2, 1, 1], 8, True, "imagenet", 10, "fan_out"), 2e-6),
    ("resnet50_epcc", "blocks=1,2,1,1 planes=8 height=32 width=32 classes=10",
     lambda: ResNet([1, 2, 1, 1], 8, True, "epcc", 10, None), 0),
    ("densenet121", "blocks=2,2,3,2 growth=4 planes=8 height=64 width=64 classes=10",
     lambda: DenseNet([2, 2, 3, 2], 4, 8, 10), 2e-6),
    ("unet", "planes=4 depth=3 height=37 width=44", lambda: UNet(4, 3, True), 0),
    ("unet_transposed", "planes=4 depth=3 height=37 width=44", lambda: UNet(4, 3, False), 0),
    ("vgg16", "planes=4 hidden=16 height=32 width=32 classes=10", lambda: VGG([2, 2, 3, 3, 3], 4, 16, 10, False), 2e-6),
    ("vgg16_bn", "planes=4 hidden=16 height=32 width=32 classes=10",
     lambda: VGG([2, 2, 3, 3, 3], 4, 16, 10, True), 2e-6),
    ("mobilenet_v2", "shrink=4 height=32 width=32 classes=10", lambda: MobileNetV2(4, 10), 2e-6),
    ("cosmoflow", "size=16 planes=4 layers=3 hidden=16,8", lambda: CosmoFlow(4, 16, 4, 3, [16, 8]), 0),
    ("wlm_lstm", "vocabulary=50 length=6 embedding=8 hidden=12", lambda: Words("LSTM", 50, 8, 12, 2), 0),
    ("wlm_gru", "vocabulary=50 length=6 embedding=8 hidden=12", lambda: Words("GRU", 50, 8, 12, 2), 0),
    ("wlm_transformer", "vocabulary=50 length=6 width=8 hidden=12", lambda: WordTransformer(50, 8, 12, 2, 2), 0),
    ("transformer_12_6", "length=7 target_length=5 width=16 hidden=24 heads=4 encoder_layers=3 decoder_layers=2",
     lambda: Pair(16, 4, 3, 2, 24, 0.1), 0),
    ("gpt2_124M", "vocabulary=61 positions=16 length=12 width=16 layers=2 heads=4", lambda: GPT(61, 16, 16, 2, 4), None),
    ("bert_base", "vocabulary=61 positions=16 length=12 width=16 layers=2 heads=4", lambda w: bert(w, 4, 2), None),
    ("mobilenet_v1", "shrink=8 height=32 width=32 classes=10", lambda w: mobilenet_v1(w, False), None),
    ("mobilenet_v1", "shrink=8 height=32 width=32 classes=10 keras=true", lambda w: mobilenet_v1(w, True), None),
    ("mnasnet1_0", "shrink=8 height=32 width=32 classes=10", lambda w: mnasnet(w), None),
    ("shufflenet_v2_x1_0", "shrink=4 height=32 width=32 classes=10", lambda w: shufflenet(w), None),
    ("squeezenet1_1", "planes=16 height=35 width=35 classes=10", lambda w: squeezenet(w), None),
    ("alexnet", "planes=4 hidden=16 height=64 width=64 classes=10", lambda w: alexnet(w), None),
    ("googlenet", "shrink=16 height=70 width=70 classes=10", lambda w: googlenet(w), None),
    ("inception_v3", "shrink=16 height=139 width=107 classes=10", lambda w: inception_v3(w), None),
    ("inception_v4", "shrink=16 height=139 width=107 classes=10", lambda w: inception_v4(w), None),
    ("densenet_bc_100_12", "blocks=2,3,2 growth=4 planes=8 height=16 width=16", lambda w: densenet_bc(w, [2, 3, 2]),
     None),
    ("unet_vanilla", "planes=4 height=32 width=48 classes=5", lambda w: segmentation(w, "unet", False), None),
    ("vgg_unet", "planes=4 height=32 width=48 classes=5", lambda w: segmentation(w, "unet", True), None),
    ("segnet", "planes=4 height=32 width=48 classes=5", lambda w: segmentation(w, "segnet", False), None),
    ("segnet", "planes=4 height=32 width=48 classes=5 unpool=true",
     lambda w: segmentation(w, "segnet", False, True), None),
    ("vgg_segnet", "planes=4 height=32 width=48 classes=5", lambda w: segmentation(w, "segnet", True), None),
    ("fcn8", "planes=4 hidden=16 height=64 width=96 classes=5", lambda w: segmentation(w, "fcn8", False), None),
    ("fcn8_vgg", "planes=4 hidden=16 height=64 width=96 classes=5", lambda w: segmentation(w, "fcn8", True), None),
    ("dtr_lstm", "features=5 memory=6 steps=4", lambda w: dtr_lstm(w), None),
    ("dtr_treelstm", "features=5 memory=6 depth=3", lambda w: dtr_tree(w, 3), None),
    ("deepcam", "shrink=32 middle=2 channels=4 height=64 width=96", lambda w: deepcam(w, 2), None),
]


def ebb(*args):
    r = subprocess.run(args, capture_output=True, text=True)
    if r.returncode:
        raise RuntimeError(f"{' '.join(args)}: {r.stderr.strip()}")


def spread(weights):
    """Weights and statistics that are no longer ones and zeros."""
    g = torch.Generator().manual_seed(3)
    out = {}
    for name, t in weights.items():
        if t.dtype != torch.float32:
            out[name] = t
        elif name.endswith("running_var"):
            out[name] = torch.rand(t.shape, generator=g) + 0.5
        elif t.dim() < 2:
            out[name] = t + 0.2 * torch.randn(t.shape, generator=g)
        else:
            out[name] = t
    return out


def check_weights(weights, module, limit):
    torch.manual_seed(1)
    m = module()
    want = m.state_dict()
    if set(want) != set(weights):
        return f"names differ: {sorted(set(want) ^ set(weights))[:6]}"
    for name, t in want.items():
        if list(t.shape) != list(weights[name].shape):
            return f"{name} is {list(weights[name].shape)}, torch's {list(t.shape)}"
        if limit is not None and t.numel():
            off = (t.double() - weights[name].double()).abs().max().item()
            if off > limit:
                return f"{name}: initial values are off by {off:g}"
    return ""


def check(program, folder, name, options, module, limit):
    sets = [x for o in options.split() for x in ("--set", o)]
    w, w2, o = (os.path.join(folder, f) for f in ("w", "w2", "o"))
    ebb(program, "model", "init", name, *sets, "--set", "rng=torch", "--seed", "1", "-o", w)
    weights = read(w)
    is_function = module.__code__.co_argcount == 1
    if not is_function:
        problem = check_weights(weights, module, limit)
        if problem:
            return problem
    weights = spread(weights)
    write(w2, weights)
    ebb(program, "model", "eval", name, *sets, "--weights", w2, "-o", o)
    data = read(o)
    inputs = {k[6:]: v for k, v in data.items() if k.startswith("input/")}
    order = [k for k in ("images", "volumes", "tokens", "segments", "mask", "hidden", "cell", "positions", "source",
                         "target", "inputs") if k in inputs]
    args = [inputs[k] for k in order]
    with torch.no_grad():
        if is_function:
            want = module(weights)(*args)
        else:
            m = module()
            m.load_state_dict(weights)
            m.eval()
            want = (m(*args),)
    names = ["mlm", "nsp"] if "output/mlm" in data else [k for k in ("values", "loss", "logits") if "output/" + k in data]
    for k, t in zip(names, want):
        got = data["output/" + k]
        if list(got.shape) != list(t.shape):
            return f"{k} is {list(got.shape)}, torch's {list(t.shape)}"
        off = (got - t).abs().max().item() / max(t.abs().max().item(), 1e-6)
        if not off <= 2e-5:
            return f"{k}: off by {off:g} of the largest"
    return ""


def main():
    program, wanted = sys.argv[1], sys.argv[2:]
    failed = passed = 0
    with tempfile.TemporaryDirectory() as folder:
        for case in CASES:
            if wanted and case[0] not in wanted:
                continue
            problem = check(program, folder, *case)
            failed += bool(problem)
            passed += not problem
            if problem:
                print(f"FAIL {case[0]}: {problem}")
    print(f"{passed} passed, {failed} failed")
    sys.exit(bool(failed) or not passed)


main()
