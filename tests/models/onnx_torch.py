#!/usr/bin/env python3
"""Training exports of torch against torch: outputs in evaluation, first gradients, then updates at the floor with the bits of an
unlimited run; and evaluation exports, whose merged norms are told.

Usage: onnx_torch.py EBB [NAME...]. Exit 77 when torch or torchvision is not installed. Debian: python3-torch, python3-torchvision."""
import copy
import json
import math
import os
import subprocess
import sys
import tempfile
import warnings

try:
    import numpy as np
    import torch
    import torchvision.models as tv
    from torch import nn
except ImportError as e:
    print(f"skipped: {e}")
    sys.exit(77)

warnings.filterwarnings("ignore")
torch.set_num_threads(1)
UPDATES = 20
RATE = 1024.0  # of the one update that shows the gradients: large, so that weights do not hide them


class Encoder(nn.Module):
    """torch's own encoder layers over words, the mean of them classified."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(50, 32)
        self.place = nn.Parameter(torch.randn(16, 32) * 0.02)
        layer = nn.TransformerEncoderLayer(32, 4, 64, dropout=0.0, activation="gelu", batch_first=True)
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(32, 50)

    def forward(self, x):
        return self.head(self.layers(self.embed(x) + self.place))


class Attention(nn.Module):
    def __init__(self, width, heads, length):
        super().__init__()
        self.heads = heads
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.register_buffer("mask", torch.tril(torch.ones(length, length)).view(1, 1, length, length) > 0)

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = (p.view(b, t, self.heads, c // self.heads).transpose(1, 2) for p in self.qkv(x).split(c, dim=2))
        s = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(c // self.heads))
        s = s.masked_fill(~self.mask[:, :, :t, :t], float("-inf"))
        return self.out((s.softmax(-1) @ v).transpose(1, 2).contiguous().view(b, t, c))


class Block(nn.Module):
    def __init__(self, width, heads, length):
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attn = Attention(width, heads, length)
        self.fc, self.proj = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        h = self.fc(self.ln_2(x))
        h = 0.5 * h * (1.0 + torch.tanh(math.sqrt(2.0 / math.pi) * (h + 0.044715 * torch.pow(h, 3.0))))
        return x + self.proj(h)


class GPT(nn.Module):
    def __init__(self, length=16, width=32, heads=4, layers=3, words=60):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(words, width), nn.Embedding(length, width)
        self.h = nn.ModuleList(Block(width, heads, length) for _ in range(layers))
        self.ln_f = nn.LayerNorm(width)

    def forward(self, x):
        x = self.wte(x) + self.wpe(torch.arange(x.shape[1]))
        for block in self.h:
            x = block(x)
        return self.ln_f(x) @ self.wte.weight.T


class Words(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(40, 24)
        self.rnn = nn.LSTM(24, 32, num_layers=2, batch_first=True)
        self.head = nn.Linear(32, 40)

    def forward(self, x):
        return self.head(self.rnn(self.embed(x))[0])


class Both(nn.Module):
    """Both ways over rows, a GRU behind it."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(40, 24)
        self.rnn = nn.LSTM(24, 16, bidirectional=True, batch_first=True)
        self.gru = nn.GRU(32, 24, batch_first=True)
        self.head = nn.Linear(24, 40)

    def forward(self, x):
        return self.head(self.gru(self.rnn(self.embed(x))[0])[0])


def calm(make):
    """Biases of 3 at batch norms: units stay away from zero, where float32 and float64 fall on different sides in deep networks on
    a handful of images, in torch as well: one unit of sixteen places is 0.06 of a gradient."""
    def run(**more):
        model = make(**more)
        for module in model.modules():
            if isinstance(module, nn.BatchNorm2d):
                module.bias.data.fill_(3.0)
        return model
    return run


def small_head(make, flat):
    """The features as they are; a head for small images, whose size the adaptive pool of the original cannot be exported for. Without
    norms biases of 0.5, as in calm(): else torch's own float32 gradients are 48 tolerances away from its float64 ones."""
    def run(num_classes, **more):
        model = make(**more)
        has_norms = any(isinstance(module, nn.BatchNorm2d) for module in model.modules())
        for module in model.modules():
            if isinstance(module, nn.Conv2d) and not has_norms:
                module.bias.data.fill_(0.5)
        model.avgpool = nn.Identity()
        model.classifier = nn.Sequential(nn.Dropout(0.5), nn.Linear(flat, 96), nn.ReLU(), nn.Linear(96, 96), nn.ReLU(),
                                         nn.Linear(96, num_classes))
        return model
    return run


def awake(make):
    """A head that is not zero."""
    def run(**more):
        model = make(**more)
        nn.init.normal_(model.heads.head.weight, std=0.05)
        return model
    return run


def image(make, size=64, batch=4, classes=10, **more):
    return lambda: (make(num_classes=classes, **more), torch.randn(batch, 3, size, size), torch.randint(0, classes, (batch,)),
                    "image_classification")


def words(make, vocabulary, length=16, batch=4):
    def run():
        line = torch.randint(0, vocabulary, (batch * length + 1,))
        return make(), line[:-1].view(batch, length), line[1:].view(batch, length), "language_model"
    return run


NETS = {  # name: what it is, opset
    "resnet18": (image(tv.resnet18), 13),
    "resnet50": (image(calm(tv.resnet50)), 11),
    "mobilenet_v2": (image(calm(tv.mobilenet_v2)), 12),
    "mobilenet_v3_small": (image(tv.mobilenet_v3_small), 14),
    "vgg11": (image(small_head(tv.vgg11, 512 * 4)), 13),
    "vgg11_bn": (image(calm(small_head(tv.vgg11_bn, 512 * 4))), 15),
    "alexnet": (image(small_head(tv.alexnet, 256)), 12),
    "squeezenet1_1": (image(tv.squeezenet1_1), 10),
    "densenet121": (image(calm(tv.densenet121)), 9),
    "shufflenet_v2": (image(calm(tv.shufflenet_v2_x0_5)), 16),
    "mnasnet": (image(calm(tv.mnasnet0_5)), 17),
    "efficientnet_b0": (image(tv.efficientnet_b0, stochastic_depth_prob=0.0), 13),
    "convnext_tiny": (image(tv.convnext_tiny, stochastic_depth_prob=0.0), 14),
    "vit": (image(awake(tv.VisionTransformer), image_size=64, patch_size=16, num_layers=3, num_heads=4, hidden_dim=64, mlp_dim=128), 16),
    "encoder": (words(Encoder, 50), 14),
    "gpt": (words(GPT, 60), 14),
    "gpt_17": (words(GPT, 60), 17),
    "lstm": (words(Words, 40), 13),
    "both": (words(Both, 40), 14),
}


def call(ebb, *args):
    run = subprocess.run([ebb, *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if run.returncode:
        raise RuntimeError(f"ebb {' '.join(args)}: exit {run.returncode}\n{run.stdout[-800:]}{run.stderr[-1500:]}")
    return run.stdout + run.stderr


def export(model, x, path, opset, training):
    mode = torch.onnx.TrainingMode.TRAINING if training else torch.onnx.TrainingMode.EVAL
    torch.onnx.export(model, x, path, opset_version=opset, training=mode, do_constant_folding=not training,
                      input_names=["x"], output_names=["logits"], dynamic_axes={"x": {0: "batch"}, "logits": {0: "batch"}})


def loss_of(out, y):
    return nn.functional.cross_entropy(out.flatten(0, -2), y.flatten())


def error(have, want, relative, of_largest):
    """Above 1: too far from it."""
    want, have = want.astype(np.float64), have.astype(np.float64)
    limit = relative * np.abs(want) + of_largest * np.abs(want).max() + 1e-12
    return float((np.abs(have - want) / limit).max())


def write_data(task, x, y):
    """The samples as a file; what the experiment says of it."""
    if task == "language_model":
        np.concatenate([x.flatten().numpy(), y.flatten()[-1:].numpy()]).astype(np.int64).tofile("data.bin")
        return (f"{{name: tokens, data_dir: ., train_files: data.bin, val_files: data.bin, token_dtype: i64, "
                f"sequence_length: {x.shape[1]}, vocabulary: 64, shuffle: false}}")
    np.savez("data.npz", x=x.numpy(), y=y.numpy())
    return "{name: npz, data_dir: ., train_files: data.npz, val_files: data.npz, fields: [x, y], shuffle: false}"


def experiment(task, net, rate, x, y):
    return f"""description: compared
entrypoint: ebb:{task}
data: {write_data(task, x, y)}
model: {{file: {net}}}
hyperparameters: {{global_batch_size: {len(x)}}}
opt: {{name: SGD, lr: {rate}}}
searcher: {{name: single, metric: validation_loss, max_steps: 1}}
"""


def gradients(ebb, model, x, y, task, net):
    """Of one plain update, in training, against float64."""
    exact = copy.deepcopy(model).double().train()
    loss_of(exact(x.double() if x.is_floating_point() else x), y).backward()
    open("grad.yaml", "w").write(experiment(task, net, RATE, x, y))
    call(ebb, "train", "grad.yaml", "--updates", "1", "--no-validation", "--export-weights", "after.npz")
    after, worst, where = np.load("after.npz"), 0.0, ""
    grads = dict(exact.named_parameters())
    seen = 0
    for name, p in grads.items():
        if name not in after:
            continue
        seen += 1
        g = p.grad.numpy() if p.grad is not None else np.zeros(p.shape)
        have = (p.detach().numpy() - after[name]) / RATE
        if np.abs(g).max() < 1e-6:  # zero but for rounding: a bias before a norm
            continue
        e = np.abs(have - g).max() / (1e-4 * np.abs(g).max())
        if e > worst:
            worst, where = e, name
    return worst, where, seen, len(grads)


def floor_bits(ebb, task, net, x, y):
    open("floor.yaml", "w").write(experiment(task, net, 0.001, x, y))
    said = json.loads(call(ebb, "train", "floor.yaml", "--updates", "1", "--no-validation", "--json").strip().split("\n")[-1])
    rows = []
    for budget in ([], ["--budget", str(said["floor_bytes"])]):
        out = call(ebb, "train", "floor.yaml", "--updates", str(UPDATES), "--no-validation", "--json", *budget)
        rows.append(json.loads(out.strip().split("\n")[-1]))
    kept = rows[1]["peak_bytes"] <= said["floor_bytes"]
    return kept and rows[0]["weights_sha256"] == rows[1]["weights_sha256"], said["floor_bytes"], rows[0]["peak_bytes"]


def compare(ebb, name):
    torch.manual_seed(1)
    model, x, y, task = NETS[name][0]()
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
    opset = NETS[name][1]
    export(model.train(), x, "train.onnx", opset, True)
    np.savez("x.npz", x=x.numpy())
    model.eval()
    with torch.no_grad():
        want = copy.deepcopy(model).double()(x.double() if x.is_floating_point() else x).numpy()
    call(ebb, "model", "eval", "train.onnx", "--input", "x.npz", "-o", "out.npz")
    have = np.load("out.npz")["output/logits"].reshape(want.shape)
    outputs = error(have, want, 2e-5, 2e-5)
    worst, where, seen, total = gradients(ebb, model, x, y, task, "train.onnx")
    same, floor, peak = floor_bits(ebb, task, "train.onnx", x, y)
    good = outputs <= 1 and worst <= 1 and same and seen == total
    print(f"{'ok  ' if good else 'FAIL'} {name}: opset {opset}, outputs {outputs:.3f}, gradients {worst:.3f} of the tolerance"
          f"{' (' + where + ')' if worst > 0.5 else ''}, {seen} of {total} parameters by name, {UPDATES} updates "
          f"{'equal' if same else 'DIFFER'} at the floor ({floor >> 10} of {peak >> 10} KiB)", flush=True)
    return good


def merged(ebb):
    """An export for evaluation says what it lost."""
    torch.manual_seed(1)
    export(tv.resnet18(num_classes=10).eval(), torch.randn(1, 3, 64, 64), "eval.onnx", 13, False)
    said = call(ebb, "model", "show", "eval.onnx")
    good = "merged batch norms" in said and "TrainingMode.TRAINING" in said
    print(f"{'ok  ' if good else 'FAIL'} merged norms are told", flush=True)
    return good


def main():
    ebb, wanted = os.path.abspath(sys.argv[1]), sys.argv[2:] or list(NETS)
    good = True
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for name in wanted:
            try:
                good &= compare(ebb, name) if name != "merged" else merged(ebb)
            except RuntimeError as e:
                print(f"FAIL {name}: {e}", flush=True)
                good = False
        if not sys.argv[2:]:
            good &= merged(ebb)
    sys.exit(0 if good else 1)


main()
