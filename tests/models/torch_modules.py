"""Networks as torch modules, written for torch_reference.py from their published descriptions, with the names that
torchvision and the origins give their parts."""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F

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
