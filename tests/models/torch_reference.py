#!/usr/bin/env python3
"""The zoo against torch: names and shapes of every weight, initial values of `rng: torch`, outputs in evaluation.

Usage: torch_reference.py EBB [NAME...]. Exit 77 when torch is not installed. The networks below are written for this
comparison from their published descriptions, with the names that torchvision and the origins give their parts."""
import json
import math
import os
import struct
import subprocess
import sys
import tempfile

try:
    import torch
    import torch.nn as nn
    import torch.nn.functional as F
except ImportError:
    print("torch is not installed: nothing compared")
    sys.exit(77)

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


# ---- convolutional networks --------------------------------------------------------------------------------------

def seq(*parts):
    return nn.Sequential(*parts)


class Act(nn.Module):
    """An activation inside a Sequential, so that numbers stay torchvision's."""

    def __init__(self, f):
        super().__init__()
        self.f = f

    def forward(self, x):
        return self.f(x)


def relu():
    return Act(F.relu)


def conv(i, o, k=1, s=1, bias=False, **kw):
    kw.setdefault("padding", k // 2)
    return nn.Conv2d(i, o, k, s, bias=bias, **kw)


def init_convs(m, mode, zero_bias=False, linear=None):
    for x in m.modules():
        if isinstance(x, nn.Conv2d):
            nn.init.kaiming_normal_(x.weight, mode=mode, nonlinearity="relu")
            if zero_bias and x.bias is not None:
                nn.init.zeros_(x.bias)
        elif isinstance(x, nn.Linear) and linear:
            linear(x)


class Block(nn.Module):
    def __init__(self, i, p, s, deep, cifar):
        super().__init__()
        o = 4 * p if deep else p
        self.deep, self.s, self.pad, self.cifar = deep, s, o - i, cifar
        self.conv1 = conv(i, p, 1 if deep else 3, 1 if deep else s)
        self.bn1 = nn.BatchNorm2d(p)
        self.conv2 = conv(p, p, 3, s if deep else 1)
        self.bn2 = nn.BatchNorm2d(p)
        if deep:
            self.conv3 = conv(p, o)
            self.bn3 = nn.BatchNorm2d(o)
        self.downsample = seq(conv(i, o, 1, s), nn.BatchNorm2d(o)) if not cifar and (s != 1 or i != o) else None

    def forward(self, x):
        y = F.relu(self.bn1(self.conv1(x)))
        y = self.bn2(self.conv2(y))
        if self.deep:
            y = self.bn3(self.conv3(F.relu(y)))
        if self.downsample:
            x = self.downsample(x)
        elif self.cifar and (self.s != 1 or self.pad):
            x = F.pad(x[:, :, ::2, ::2], (0, 0, 0, 0, self.pad // 2, self.pad // 2))
        return F.relu(y + x)


class ResNet(nn.Module):
    def __init__(self, blocks, planes, deep, stem, classes, rule):
        super().__init__()
        self.stem = stem
        self.conv1 = conv(3, planes, 7, 2) if stem == "imagenet" else conv(3, planes, 3)
        self.bn1 = nn.BatchNorm2d(planes)
        i = planes
        self.count = len(blocks)
        for s, n in enumerate(blocks):
            layer = []
            for k in range(n):
                layer.append(Block(i, planes << s, 2 if s and not k else 1, deep, stem == "cifar"))
                i = (planes << s) * (4 if deep else 1)
            setattr(self, f"layer{s + 1}", seq(*layer))
        head = nn.Linear(i, classes)
        setattr(self, "linear" if stem == "cifar" else "fc", head)
        self.head = [head]
        if rule:
            init_convs(self, rule, linear=(lambda x: nn.init.kaiming_normal_(x.weight)) if stem == "cifar" else None)

    def forward(self, x):
        x = F.relu(self.bn1(self.conv1(x)))
        if self.stem != "cifar":
            x = F.max_pool2d(x, 3, 2, 1)
        for s in range(self.count):
            x = getattr(self, f"layer{s + 1}")(x)
        return self.head[0](x.mean((2, 3)))


class DenseLayer(nn.Module):
    def __init__(self, i, g):
        super().__init__()
        self.norm1, self.conv1 = nn.BatchNorm2d(i), conv(i, 4 * g)
        self.norm2, self.conv2 = nn.BatchNorm2d(4 * g), conv(4 * g, g, 3)

    def forward(self, x):
        y = self.conv1(F.relu(self.norm1(x)))
        return torch.cat([x, self.conv2(F.relu(self.norm2(y)))], 1)


class Transition(nn.Module):
    def __init__(self, i, o):
        super().__init__()
        self.norm, self.conv = nn.BatchNorm2d(i), conv(i, o)

    def forward(self, x):
        return F.avg_pool2d(self.conv(F.relu(self.norm(x))), 2)


class DenseNet(nn.Module):
    def __init__(self, blocks, g, c, classes):
        super().__init__()
        f = self.features = seq()
        f.add_module("conv0", conv(3, c, 7, 2))
        f.add_module("norm0", nn.BatchNorm2d(c))
        f.add_module("relu0", relu())
        f.add_module("pool0", nn.MaxPool2d(3, 2, 1))
        for s, n in enumerate(blocks):
            block = seq()
            for k in range(n):
                block.add_module(f"denselayer{k + 1}", DenseLayer(c, g))
                c += g
            f.add_module(f"denseblock{s + 1}", block)
            if s + 1 < len(blocks):
                f.add_module(f"transition{s + 1}", Transition(c, c // 2))
                c //= 2
        f.add_module("norm5", nn.BatchNorm2d(c))
        self.classifier = nn.Linear(c, classes)
        init_convs(self, "fan_in", linear=lambda x: nn.init.zeros_(x.bias))

    def forward(self, x):
        return self.classifier(F.relu(self.features(x)).mean((2, 3)))


class Double(nn.Module):
    def __init__(self, i, o, m=None):
        super().__init__()
        m = m or o
        self.double_conv = seq(conv(i, m, 3, bias=True), nn.BatchNorm2d(m), relu(),
                               conv(m, o, 3, bias=True), nn.BatchNorm2d(o), relu())

    def forward(self, x):
        return self.double_conv(x)


class Down(nn.Module):
    def __init__(self, i, o):
        super().__init__()
        self.maxpool_conv = seq(nn.MaxPool2d(2), Double(i, o))

    def forward(self, x):
        return self.maxpool_conv(x)


class Up(nn.Module):
    def __init__(self, i, o, bilinear):
        super().__init__()
        if bilinear:
            self.up = nn.Upsample(scale_factor=2, mode="bilinear", align_corners=True)
            self.conv = Double(i, o, i // 2)
        else:
            self.up = nn.ConvTranspose2d(i, i // 2, 2, 2)
            self.conv = Double(i, o)

    def forward(self, x, skip):
        x = self.up(x)
        h, w = skip.shape[2] - x.shape[2], skip.shape[3] - x.shape[3]
        return self.conv(torch.cat([skip, F.pad(x, (w // 2, w - w // 2, h // 2, h - h // 2))], 1))


class UNet(nn.Module):
    def __init__(self, p, depth, bilinear):
        super().__init__()
        f = 2 if bilinear else 1
        self.depth = depth
        self.inc = Double(3, p)
        for i in range(1, depth + 1):
            setattr(self, f"down{i}", Down(p << i - 1, (p << i) // (f if i == depth else 1)))
        for i in range(1, depth + 1):
            setattr(self, f"up{i}", Up(p << depth - i + 1, (p << depth - i) // (1 if i == depth else f), bilinear))
        self.outc = nn.ModuleDict({"conv": conv(p, 1, bias=True)})

    def forward(self, x):
        skips = [self.inc(x)]
        for i in range(1, self.depth + 1):
            skips.append(getattr(self, f"down{i}")(skips[-1]))
        x = skips.pop()
        for i in range(1, self.depth + 1):
            x = getattr(self, f"up{i}")(x, skips.pop())
        return self.outc["conv"](x)


class VGG(nn.Module):
    def __init__(self, blocks, p, hidden, classes, norm):
        super().__init__()
        parts, i = [], 3
        for s, n in enumerate(blocks):
            for _ in range(n):
                o = p << min(s, 3)
                parts += [conv(i, o, 3, bias=True)] + ([nn.BatchNorm2d(o)] if norm else []) + [relu()]
                i = o
            parts.append(nn.MaxPool2d(2))
        self.features = seq(*parts)
        self.classifier = seq(nn.Linear(i * 49, hidden), relu(), nn.Dropout(), nn.Linear(hidden, hidden), relu(),
                              nn.Dropout(), nn.Linear(hidden, classes))

        def linear(x):
            nn.init.normal_(x.weight, 0, 0.01)
            nn.init.zeros_(x.bias)
        init_convs(self, "fan_out", True, linear)

    def forward(self, x):
        return self.classifier(F.adaptive_avg_pool2d(self.features(x), 7).flatten(1))


def cbr6(i, o, k=1, s=1, g=1):
    return seq(conv(i, o, k, s, groups=g), nn.BatchNorm2d(o), Act(F.relu6))


class Inverted(nn.Module):
    def __init__(self, i, o, s, t):
        super().__init__()
        parts = [cbr6(i, i * t)] if t != 1 else []
        parts += [cbr6(i * t, i * t, 3, s, i * t), conv(i * t, o), nn.BatchNorm2d(o)]
        self.conv = seq(*parts)
        self.same = s == 1 and i == o

    def forward(self, x):
        return x + self.conv(x) if self.same else self.conv(x)


class MobileNetV2(nn.Module):
    def __init__(self, shrink, classes):
        super().__init__()
        def ch(c):
            return max(1, c // shrink)
        i = ch(32)
        parts = [cbr6(3, i, 3, 2)]
        for t, c, n, s in [(1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2),
                           (6, 320, 1, 1)]:
            for k in range(n):
                parts.append(Inverted(i, ch(c), 1 if k else s, t))
                i = ch(c)
        parts.append(cbr6(i, ch(1280)))
        self.features = seq(*parts)
        self.classifier = seq(nn.Dropout(0.2), nn.Linear(ch(1280), classes))

        def linear(x):
            nn.init.normal_(x.weight, 0, 0.01)
            nn.init.zeros_(x.bias)
        init_convs(self, "fan_out", True, linear)

    def forward(self, x):
        return self.classifier(self.features(x).mean((2, 3)))


class CosmoFlow(nn.Module):
    def __init__(self, channels, size, planes, layers, hidden):
        super().__init__()
        self.layers, i = layers, channels
        for k in range(layers):
            setattr(self, f"conv{k}", nn.Conv3d(i, planes << k, 3, padding=1))
            i = planes << k
        n = i * (size >> layers) ** 3
        self.l1, self.l2, self.lO = nn.Linear(n, hidden[0]), nn.Linear(*hidden), nn.Linear(hidden[1], 4)
        for x in self.modules():
            if isinstance(x, (nn.Conv3d, nn.Linear)):
                nn.init.xavier_uniform_(x.weight)
                nn.init.zeros_(x.bias)

    def forward(self, x):
        for k in range(self.layers):
            x = F.max_pool3d(F.leaky_relu(getattr(self, f"conv{k}")(x), 0.3), 2)
        x = x.permute(0, 2, 3, 4, 1).flatten(1)
        x = F.leaky_relu(self.l2(F.leaky_relu(self.l1(x), 0.3)), 0.3)
        return 1.2 * torch.tanh(self.lO(x))


# ---- language models ---------------------------------------------------------------------------------------------

class Words(nn.Module):
    def __init__(self, kind, v, e, h, layers):
        super().__init__()
        self.encoder = nn.Embedding(v, e)
        self.rnn = getattr(nn, kind)(e, h, layers)
        self.decoder = nn.Linear(h, v)
        nn.init.uniform_(self.encoder.weight, -0.1, 0.1)
        nn.init.uniform_(self.decoder.weight, -0.1, 0.1)
        nn.init.zeros_(self.decoder.bias)

    def forward(self, tokens, *state):
        state = state if len(state) > 1 else state[0]
        y, next_state = self.rnn(self.encoder(tokens).transpose(0, 1), state)
        return self.decoder(y.transpose(0, 1)).flatten(0, 1)


class WordTransformer(nn.Module):
    def __init__(self, v, width, hidden, heads, layers):
        super().__init__()
        layer = nn.TransformerEncoderLayer(width, heads, hidden, 0.2)
        self.transformer_encoder = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.encoder = nn.Embedding(v, width)
        self.decoder = nn.Linear(width, v)
        self.width = width
        nn.init.uniform_(self.encoder.weight, -0.1, 0.1)
        nn.init.zeros_(self.decoder.bias)
        nn.init.uniform_(self.decoder.weight, -0.1, 0.1)

    def forward(self, tokens, positions):
        t = tokens.shape[1]
        mask = torch.triu(torch.full((t, t), float("-inf")), 1)
        x = self.encoder(tokens) * math.sqrt(self.width) + positions
        x = self.transformer_encoder(x.transpose(0, 1), mask).transpose(0, 1)
        return F.log_softmax(self.decoder(x).flatten(0, 1), -1)


class Pair(nn.Transformer):
    def forward(self, source, target):
        return super().forward(source, target).transpose(0, 1).flatten(0, 1)


class GPTBlock(nn.Module):
    def __init__(self, c, heads):
        super().__init__()
        self.heads = heads
        self.ln_1, self.ln_2 = nn.LayerNorm(c), nn.LayerNorm(c)
        self.attn = nn.ModuleDict({"c_attn": nn.Linear(c, 3 * c), "c_proj": nn.Linear(c, c)})
        self.mlp = nn.ModuleDict({"c_fc": nn.Linear(c, 4 * c), "c_proj": nn.Linear(4 * c, c)})

    def forward(self, x):
        n, t, c = x.shape
        q, k, v = [y.view(n, t, self.heads, -1).transpose(1, 2) for y in self.attn["c_attn"](self.ln_1(x)).split(c, 2)]
        s = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
        s = s.masked_fill(torch.ones(t, t).triu(1).bool(), float("-inf"))
        x = x + self.attn["c_proj"]((s.softmax(-1) @ v).transpose(1, 2).reshape(n, t, c))
        y = self.mlp["c_fc"](self.ln_2(x))
        y = 0.5 * y * (1 + torch.tanh(math.sqrt(2 / math.pi) * (y + 0.044715 * y ** 3)))
        return x + self.mlp["c_proj"](y)


class GPT(nn.Module):
    def __init__(self, v, positions, c, layers, heads):
        super().__init__()
        self.transformer = nn.ModuleDict({"wte": nn.Embedding(v, c), "wpe": nn.Embedding(positions, c),
                                          "h": nn.ModuleList([GPTBlock(c, heads) for _ in range(layers)]),
                                          "ln_f": nn.LayerNorm(c)})

    def forward(self, tokens):
        t = self.transformer
        x = t["wte"](tokens) + t["wpe"].weight[:tokens.shape[1]]
        for h in t["h"]:
            x = h(x)
        return (t["ln_f"](x) @ t["wte"].weight.T).flatten(0, 1)


def bert(w, heads, layers):
    """BERT as a function of its weights: outputs (mlm, nsp)."""
    def lin(name, x):
        return F.linear(x, w[name + ".weight"], w[name + ".bias"])

    def norm(name, x):
        return F.layer_norm(x, x.shape[-1:], w[name + ".weight"], w[name + ".bias"], 1e-12)

    def run(tokens, segments, mask):
        e = "bert.embeddings."
        x = w[e + "word_embeddings.weight"][tokens] + w[e + "token_type_embeddings.weight"][segments]
        x = norm(e + "LayerNorm", x + w[e + "position_embeddings.weight"][:tokens.shape[1]])
        n, t, c = x.shape
        add = (1 - mask[:, None, None, :].float()) * -10000.0
        for i in range(layers):
            p = f"bert.encoder.layer.{i}."
            q, k, v = [lin(p + "attention.self." + s, x).view(n, t, heads, -1).transpose(1, 2)
                       for s in ("query", "key", "value")]
            a = (q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1]) + add).softmax(-1) @ v
            a = lin(p + "attention.output.dense", a.transpose(1, 2).reshape(n, t, c))
            x = norm(p + "attention.output.LayerNorm", a + x)
            y = lin(p + "output.dense", F.gelu(lin(p + "intermediate.dense", x)))
            x = norm(p + "output.LayerNorm", y + x)
        pooled = torch.tanh(lin("bert.pooler.dense", x[:, 0]))
        y = norm("cls.predictions.transform.LayerNorm", F.gelu(lin("cls.predictions.transform.dense", x)))
        mlm = F.linear(y, w[e + "word_embeddings.weight"], w["cls.predictions.bias"]).flatten(0, 1)
        return mlm, lin("cls.seq_relationship", pooled)
    return run


def deepcam(w, middle):
    """DeepCAM as a function of its weights, after the benchmark's table of layers."""
    def cv(name, x, **kw):
        return F.conv2d(x, w[name + ".weight"], w.get(name + ".bias"), **kw)

    def bn(name, x):
        return F.batch_norm(x, w[name + ".running_mean"], w[name + ".running_var"], w[name + ".weight"],
                            w[name + ".bias"])

    def sep(name, x, s=1, d=1):
        x = cv(name + ".conv1", x, stride=s, padding=d, dilation=d, groups=x.shape[1])
        return cv(name + ".pointwise", x)

    def up(name, x):
        return F.conv_transpose2d(x, w[name + ".weight"], stride=2, padding=1, output_padding=1)

    def run(x):
        p = "xception_features."
        x = F.relu(bn(p + "bn1", cv(p + "conv1", x, stride=2, padding=1)))
        x = F.relu(bn(p + "bn2", cv(p + "conv2", x, padding=1)))
        low = None
        for k in (1, 2, 3, middle + 4):
            if k == middle + 4:
                for i in range(4, middle + 4):
                    r = p + f"block{i}.rep."
                    y = F.relu(bn(r + "1", sep(r + "0", x)))
                    y = F.relu(bn(r + "4", sep(r + "3", y)))
                    x = F.relu(bn(r + "7", sep(r + "6", y)) + x)
            b, s = p + f"block{k}", 2 if k < 4 else 1
            y = F.relu(bn(b + ".rep.1", sep(b + ".rep.0", x)))
            y = sep(b + ".rep.5", bn(b + ".rep.4", sep(b + ".rep.3", y)), s)
            x = y + bn(b + ".skipbn", cv(b + ".skip", x, stride=s))
            low = x if k == 1 else low
            x = F.relu(x) if k < 4 else x
        for i in (3, 4, 5):
            x = F.relu(bn(p + f"bn{i}", sep(p + f"conv{i}", x, 1, 2)))
        parts = [F.relu(bn(f"aspp{i + 1}.bn", cv(f"aspp{i + 1}.atrous_convolution", x, padding=d if i else 0,
                                                 dilation=d))) for i, d in enumerate((1, 6, 12, 18))]
        g = cv("global_avg_pool.conv", x.mean((2, 3), True))
        g = F.relu(g * w["global_avg_pool.weight"] + w["global_avg_pool.bias"])
        parts.append(g.expand(-1, -1, *x.shape[2:]))
        x = F.relu(bn("bn1", cv("conv1", torch.cat(parts, 1))))
        low = F.relu(bn("bn2", cv("conv2", low)))
        u = "upsample."
        x = F.relu(bn(u + "bn1", up(u + "deconv1", x)))
        x = F.relu(bn(u + "bn2", up(u + "deconv2", x)))
        x = F.relu(bn(u + "bn3", cv(u + "conv1", torch.cat([x, low], 1), padding=1)))
        x = F.relu(bn(u + "bn4", cv(u + "conv2", x, padding=1)))
        x = F.relu(bn(u + "bn5", up(u + "deconv3", cv(u + "conv3", x))))
        return (up(u + "last_deconv", x),)
    return run


# ---- more networks, as functions of their weights ---------------------------------------------------------------

class Net:
    """Layers by name on a dictionary of weights; `push` as a prefix."""

    def __init__(self, w, prefix="", eps=1e-5):
        self.w, self.p, self.eps = w, prefix, eps

    def at(self, prefix):
        return Net(self.w, self.p + prefix + ".", self.eps)

    def conv(self, name, x, s=1, pad=None, groups=1):
        w = self.w[self.p + name + ".weight"]
        pad = (w.shape[2] // 2, w.shape[3] // 2) if pad is None else pad
        return F.conv2d(x, w, self.w.get(self.p + name + ".bias"), s, pad, groups=groups)

    def up(self, name, x, s):
        return F.conv_transpose2d(x, self.w[self.p + name + ".weight"], stride=s)

    def bn(self, name, x):
        n = self.p + name
        return F.batch_norm(x, self.w[n + ".running_mean"], self.w[n + ".running_var"], self.w[n + ".weight"],
                            self.w[n + ".bias"], eps=self.eps)

    def lin(self, name, x):
        return F.linear(x, self.w[self.p + name + ".weight"], self.w.get(self.p + name + ".bias"))

    def unit(self, name, x, s=1, valid=False):
        """Inception's conv, norm, ReLU."""
        n = self.at(name)
        return F.relu(n.bn("bn", n.conv("conv", x, s, 0 if valid or s > 1 else None)))

    def units(self, x, *names):
        for name in names:
            x = self.unit(name, x)
        return x


def part(n, c, b, x, act=F.relu, s=1, groups=1):
    x = n.bn(b, n.conv(c, x, s, groups=groups))
    return act(x) if act else x


def mobilenet_v1(w, keras):
    def run(x):
        n = Net(w, "features.", 1e-3 if keras else 1e-5)
        def step(m, c, b, x, s, g):
            if keras and s == 2:
                return F.relu6(m.bn(b, m.conv(c, F.pad(x, (0, 1, 0, 1)), 2, 0, g)))
            return part(m, c, b, x, F.relu6, s, g)
        x = step(n.at("0"), "0", "1", x, 2, 1)
        for i, s in enumerate([1, 2, 1, 2, 1, 2, 1, 1, 1, 1, 1, 2, 1]):
            m = n.at(str(i + 1))
            x = step(m, "0", "1", x, s, x.shape[1])
            x = step(m, "3", "4", x, 1, 1)
        return (Net(w).lin("classifier", x.mean((2, 3))),)
    return run


def mnasnet(w):
    def run(x):
        n = Net(w, "layers.")
        x = part(n, "0", "1", x, s=2)
        x = part(n, "3", "4", x, groups=x.shape[1])
        x = part(n, "6", "7", x, None)
        for i, (s, count) in enumerate([(2, 3), (2, 3), (2, 3), (1, 2), (2, 4), (1, 1)]):
            for k in range(count):
                m = n.at(f"{i + 8}.{k}.layers")
                y = part(m, "0", "1", x)
                y = part(m, "3", "4", y, s=1 if k else s, groups=y.shape[1])
                y = part(m, "6", "7", y, None)
                x = x + y if k else y
        x = part(n, "14", "15", x)
        return (Net(w, "classifier.").lin("1", x.mean((2, 3))),)
    return run


def shufflenet(w):
    def run(x):
        n = Net(w)
        x = F.max_pool2d(part(n.at("conv1"), "0", "1", x, s=2), 3, 2, 1)
        def deep(m, x, s):
            y = part(m, "0", "1", x)
            y = part(m, "3", "4", y, None, s, y.shape[1])
            return part(m, "5", "6", y)
        for stage, count in ((2, 4), (3, 8), (4, 4)):
            for k in range(count):
                m = n.at(f"stage{stage}.{k}")
                if k:
                    a, b = x.chunk(2, 1)
                    b = deep(m.at("branch2"), b, 1)
                else:
                    a = part(m.at("branch1"), "0", "1", x, None, 2, x.shape[1])
                    a, b = part(m.at("branch1"), "2", "3", a), deep(m.at("branch2"), x, 2)
                x = torch.cat([a, b], 1)
                x = x.view(x.shape[0], 2, -1, *x.shape[2:]).transpose(1, 2).reshape(x.shape)
        return (n.lin("fc", part(n.at("conv5"), "0", "1", x).mean((2, 3))),)
    return run


def squeezenet(w):
    def run(x):
        n = Net(w, "features.")
        def pool(x):
            return F.max_pool2d(x, 3, 2, ceil_mode=True)
        x = pool(F.relu(n.conv("0", x, 2, 0)))
        for i in (3, 4, 6, 7, 9, 10, 11, 12):
            m = n.at(str(i))
            x = F.relu(m.conv("squeeze", x))
            x = torch.cat([F.relu(m.conv("expand1x1", x)), F.relu(m.conv("expand3x3", x))], 1)
            x = pool(x) if i in (4, 7) else x
        return (F.relu(Net(w, "classifier.").conv("1", x)).mean((2, 3)),)
    return run


def alexnet(w):
    def run(x):
        n = Net(w, "features.")
        x = F.max_pool2d(F.relu(n.conv("0", x, 4, 2)), 3, 2)
        x = F.max_pool2d(F.relu(n.conv("3", x)), 3, 2)
        x = F.relu(n.conv("8", F.relu(n.conv("6", x))))
        x = F.max_pool2d(F.relu(n.conv("10", x)), 3, 2)
        x, n = F.adaptive_avg_pool2d(x, 6).flatten(1), Net(w, "classifier.")
        return (n.lin("6", F.relu(n.lin("4", F.relu(n.lin("1", x))))),)
    return run


def googlenet(w):
    def run(x):
        n = Net(w, eps=1e-3)
        def pool(x, k, s, p=0):
            return F.max_pool2d(x, k, s, p, ceil_mode=True)
        m = n.at("conv1")
        x = pool(F.relu(m.bn("bn", m.conv("conv", x, 2))), 3, 2)
        x = pool(n.units(x, "conv2", "conv3"), 3, 2)
        for name in "3a 3b 4a 4b 4c 4d 4e 5a 5b".split():
            m = n.at("inception" + name)
            x = torch.cat([m.unit("branch1", x), m.units(x, "branch2.0", "branch2.1"),
                           m.units(x, "branch3.0", "branch3.1"), m.unit("branch4.1", pool(x, 3, 1, 1))], 1)
            x = pool(x, 3 if name == "3b" else 2, 2) if name in ("3b", "4e") else x
        return (n.lin("fc", x.mean((2, 3))),)
    return run


def inception_v3(w):
    def run(x):
        n = Net(w, eps=1e-3)
        def avg(x):
            return F.avg_pool2d(x, 3, 1, 1)
        x = n.unit("Conv2d_2b_3x3", n.unit("Conv2d_2a_3x3", n.unit("Conv2d_1a_3x3", x, 2), 1, True))
        x = n.unit("Conv2d_4a_3x3", n.unit("Conv2d_3b_1x1", F.max_pool2d(x, 3, 2)), 1, True)
        x = F.max_pool2d(x, 3, 2)
        for name in "bcd":
            m = n.at("Mixed_5" + name)
            x = torch.cat([m.unit("branch1x1", x), m.units(x, "branch5x5_1", "branch5x5_2"),
                           m.units(x, "branch3x3dbl_1", "branch3x3dbl_2", "branch3x3dbl_3"),
                           m.unit("branch_pool", avg(x))], 1)
        m = n.at("Mixed_6a")
        x = torch.cat([m.unit("branch3x3", x, 2),
                       m.unit("branch3x3dbl_3", m.units(x, "branch3x3dbl_1", "branch3x3dbl_2"), 2),
                       F.max_pool2d(x, 3, 2)], 1)
        for name in "bcde":
            m = n.at("Mixed_6" + name)
            x = torch.cat([m.unit("branch1x1", x), m.units(x, *[f"branch7x7_{i}" for i in (1, 2, 3)]),
                           m.units(x, *[f"branch7x7dbl_{i}" for i in (1, 2, 3, 4, 5)]),
                           m.unit("branch_pool", avg(x))], 1)
        m = n.at("Mixed_7a")
        x = torch.cat([m.unit("branch3x3_2", m.unit("branch3x3_1", x), 2),
                       m.unit("branch7x7x3_4", m.units(x, *[f"branch7x7x3_{i}" for i in (1, 2, 3)]), 2),
                       F.max_pool2d(x, 3, 2)], 1)
        for name in "bc":
            m = n.at("Mixed_7" + name)
            a, b = m.unit("branch3x3_1", x), m.units(x, "branch3x3dbl_1", "branch3x3dbl_2")
            x = torch.cat([m.unit("branch1x1", x), m.unit("branch3x3_2a", a), m.unit("branch3x3_2b", a),
                           m.unit("branch3x3dbl_3a", b), m.unit("branch3x3dbl_3b", b),
                           m.unit("branch_pool", avg(x))], 1)
        return (n.lin("fc", x.mean((2, 3))),)
    return run


def inception_v4(w):
    def run(x):
        n = Net(w, "features.", 1e-3)
        def avg(x):
            return F.avg_pool2d(x, 3, 1, 1, count_include_pad=False)
        def many(m, b, count):
            return [f"{b}.{i}" for i in range(count)]
        x = n.unit("2", n.unit("1", n.unit("0", x, 2), 1, True))
        x = torch.cat([F.max_pool2d(x, 3, 2), n.unit("3.conv", x, 2)], 1)
        m = n.at("4")
        x = torch.cat([m.unit("branch0.1", m.unit("branch0.0", x), 1, True),
                       m.unit("branch1.3", m.units(x, *many(m, "branch1", 3)), 1, True)], 1)
        x = torch.cat([n.unit("5.conv", x, 2), F.max_pool2d(x, 3, 2)], 1)
        for i in range(6, 22):
            m = n.at(str(i))
            if i < 10:
                x = torch.cat([m.unit("branch0", x), m.units(x, *many(m, "branch1", 2)),
                               m.units(x, *many(m, "branch2", 3)), m.unit("branch3.1", avg(x))], 1)
            elif i == 10:
                x = torch.cat([m.unit("branch0", x, 2), m.unit("branch1.2", m.units(x, *many(m, "branch1", 2)), 2),
                               F.max_pool2d(x, 3, 2)], 1)
            elif i < 18:
                x = torch.cat([m.unit("branch0", x), m.units(x, *many(m, "branch1", 3)),
                               m.units(x, *many(m, "branch2", 5)), m.unit("branch3.1", avg(x))], 1)
            elif i == 18:
                x = torch.cat([m.unit("branch0.1", m.unit("branch0.0", x), 2),
                               m.unit("branch1.3", m.units(x, *many(m, "branch1", 3)), 2), F.max_pool2d(x, 3, 2)], 1)
            else:
                a, b = m.unit("branch1_0", x), m.units(x, "branch2_0", "branch2_1", "branch2_2")
                x = torch.cat([m.unit("branch0", x), m.unit("branch1_1a", a), m.unit("branch1_1b", a),
                               m.unit("branch2_3a", b), m.unit("branch2_3b", b), m.unit("branch3.1", avg(x))], 1)
        return (Net(w).lin("last_linear", x.mean((2, 3))),)
    return run


def densenet_bc(w, blocks):
    def run(x):
        n = Net(w)
        x = n.conv("conv1", x)
        for s, count in enumerate(blocks):
            for k in range(count):
                m = n.at(f"block{s + 1}.layer.{k}")
                y = m.conv("conv1", F.relu(m.bn("bn1", x)))
                x = torch.cat([x, m.conv("conv2", F.relu(m.bn("bn2", y)))], 1)
            if s + 1 < len(blocks):
                m = n.at(f"trans{s + 1}")
                x = F.avg_pool2d(m.conv("conv1", F.relu(m.bn("bn1", x))), 2)
        return (F.log_softmax(n.lin("fc", F.relu(n.bn("bn1", x)).mean((2, 3))), 1),)
    return run


def segmentation(w, kind, vgg, unpool=False):
    def run(x):
        n, f, index = Net(w), [], []
        for i, depth in enumerate((2, 2, 3, 3, 3)[:5 if kind == "fcn8" else 4]):
            m = n.at(f"encoder.block{i + 1}")
            if vgg:
                for k in range(depth):
                    x = F.relu(m.conv(f"conv{k + 1}", x))
            else:
                x = F.relu(m.bn("bn", m.conv("conv", x)))
            x, where = F.max_pool2d(x, 2, return_indices=True)
            f.append(x)
            index.append(where)
        def step(i, x):
            m = n.at(f"decoder.block{i}")
            return m.bn("bn", m.conv("conv", x))
        if kind == "fcn8":
            x = F.relu(n.conv("conv7", F.relu(n.conv("conv6", x))))
            x = n.up("up5", n.conv("score5", x), 2)
            for i, (score, up, k) in enumerate((("score4", "up4", 2), ("score3", "up3", 8))):
                y = n.conv(score, f[3 - i])
                h, v = min(x.shape[2], y.shape[2]), min(x.shape[3], y.shape[3])
                x = n.up(up, x[:, :, :h, :v] + y[:, :, :h, :v], k)
            return (x,)
        x = step(1, x)
        for i in range(3):
            x = F.max_unpool2d(x, index[3 - i], 2) if unpool else F.interpolate(x, scale_factor=2)
            x = step(i + 2, torch.cat([x, f[2 - i]], 1) if kind == "unet" else x)
        return (n.conv("classifier", x),)
    return run


def dtr_cell(w, x, children):
    n = Net(w, "cell.")
    iou = n.lin("ioux", x)
    if children:
        iou = iou + n.lin("iouh", sum(c for c, _ in children))
    i, o, u = iou.chunk(3, 1)
    c = i.sigmoid() * u.tanh()
    for _, h in children:
        c = c + (n.lin("fx", x) * n.lin("fh", h)).sigmoid()
    return c, o.sigmoid() * c.tanh()


def dtr_lstm(w):
    def run(x):
        m = w["cell.fh.weight"].shape[0]
        s = (torch.zeros(1, m), torch.zeros(1, m))
        for t in range(x.shape[0]):
            s = dtr_cell(w, x[t], [s])
        return (s[0].sum(),)
    return run


def dtr_tree(w, depth):
    def run(x):
        at = [0]
        def node(d):
            children = [node(d - 1) for _ in range(2)] if d else []
            at[0] += 1
            return dtr_cell(w, x[at[0] - 1], children)
        return (node(depth)[0].sum(),)
    return run


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
