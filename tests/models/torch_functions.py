"""Networks as functions of their weights (name -> tensor), written for torch_reference.py from their published
descriptions."""
import math

import torch
import torch.nn.functional as F

class Net:
    """Layers by name on a dictionary of weights; `push` as a prefix."""

    training = False  # of norms

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
                            self.w[n + ".bias"], self.training, eps=self.eps)

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


def bert(w, heads, layers, is_pooled=False):
    """BERT as a function of its weights: outputs (mlm, nsp), or what its heads read of the first token."""
    def lin(name, x):
        return F.linear(x, w[name + ".weight"], w[name + ".bias"])

    def norm(name, x):
        return F.layer_norm(x, x.shape[-1:], w[name + ".weight"], w[name + ".bias"], 1e-12)

    def run(tokens, segments, mask):
        e = "bert.embeddings."
        x = F.embedding(tokens, w[e + "word_embeddings.weight"])
        x = x + F.embedding(segments, w[e + "token_type_embeddings.weight"])
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
        if is_pooled:
            return pooled
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
                            w[name + ".bias"], Net.training)

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
