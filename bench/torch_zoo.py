"""Models of the zoo in PyTorch as it is used: torchvision's where it has them, else the networks of tests/models, else a page
here. Activations in place where nothing else reads what they change; no dropout (ebb and PyTorch draw other numbers).

`make` gets the name, the options and the list of weights that ebb's side tells, and returns a Model."""
import math
import os
import sys

import torch
import torch.nn.functional as F
from torch import nn

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tests", "models"))
import torch_functions as functions  # noqa: E402
import torch_modules as modules  # noqa: E402


class InPlace:
    """torch.nn.functional with activations that overwrite their argument."""

    def __getattr__(self, name):
        return getattr(F, name)

    def relu(self, x):
        return F.relu(x, inplace=True)

    def relu6(self, x):
        return F.relu6(x, inplace=True)

    def leaky_relu(self, x, slope):
        return F.leaky_relu(x, slope, inplace=True)


functions.Net.training = True


class Model:
    """Parameters, and outputs as a function of inputs in ebb's order."""

    def __init__(self, parameters, run, module=None, weights=None):
        self.parameters, self.run, self.module, self.weights = list(parameters), run, module, weights


def of_module(m):
    for x in m.modules():
        if isinstance(x, nn.Dropout):
            x.p = 0.0
        if isinstance(x, (nn.MultiheadAttention, nn.LSTM, nn.GRU)):
            x.dropout = 0.0
    m.train()
    return Model(m.parameters(), m, module=m)


def initial(name, shape):
    if len(shape) > 1:
        return torch.randn(shape) / math.sqrt(max(1, torch.Size(shape[1:]).numel()))
    is_one = name.endswith(("running_var", "weight")) or name.endswith("LayerNorm.weight")
    return torch.ones(shape) if is_one else torch.zeros(shape)


def of_function(make, items, in_place=True):
    """`make` gives a function of the weights; those are made after ebb's list of them."""
    functions.F = InPlace() if in_place else F
    weights, parameters = {}, []
    for name, shape, is_parameter in items:
        if name.endswith("num_batches_tracked"):
            continue
        weights[name] = initial(name, shape)
        if is_parameter:
            parameters.append(weights[name].requires_grad_())
    run = make(weights)
    return Model(parameters, run, weights=weights)


# ---- networks that neither has ---------------------------------------------------------------------------------------------

def heads_of(x, heads):
    n, t, _ = x.shape
    return x.view(n, t, heads, -1).transpose(1, 2)


def merged(x):
    return x.transpose(1, 2).reshape(x.shape[0], x.shape[2], -1)


def gpt(heads, layers, head, t):
    mask = torch.ones(t, t, dtype=torch.bool).triu(1)

    def make(w):
        def lin(name, x):
            return F.linear(x, w[name + ".weight"], w.get(name + ".bias"))

        def norm(name, x):
            return F.layer_norm(x, x.shape[-1:], w[name + ".weight"], w[name + ".bias"])

        def run(tokens):
            p = "transformer."
            x = F.embedding(tokens, w[p + "wte.weight"]) + w[p + "wpe.weight"][:tokens.shape[1]]
            for i in range(layers):
                a, m = f"{p}h.{i}.attn.", f"{p}h.{i}.mlp."
                is_separate = a + "q_proj.weight" in w
                y = norm(f"{p}h.{i}.ln_1", x)
                parts = [lin(a + k, y) for k in ("q_proj", "k_proj", "v_proj")] if is_separate \
                    else lin(a + "c_attn", y).chunk(3, 2)
                q, k, v = [heads_of(z, heads) for z in parts]
                s = (q @ k.transpose(-1, -2)) * (q.shape[-1] ** -0.5)
                s = s.masked_fill(mask, float("-inf")).softmax(-1) @ v
                x = x + lin(a + ("out_proj" if is_separate else "c_proj"), merged(s))
                y = lin(m + "c_fc", norm(f"{p}h.{i}.ln_2", x))
                y = F.silu(y) if is_separate else F.gelu(y, approximate="tanh")
                x = x + lin(m + "c_proj", y)
            x = norm(p + "ln_f", x)
            if head == "classifier":
                return (lin("score", x[:, -1]),)
            return (F.linear(x, w[p + "wte.weight"]).flatten(0, 1),)
        return run
    return make


def bert_classifier(heads, layers):
    def make(w):
        whole = functions.bert(w, heads, layers, is_pooled=True)
        return lambda *inputs: (F.linear(whole(*inputs), w["classifier.weight"], w["classifier.bias"]),)
    return make


def chain(layers):
    def make(w):
        def run(x):
            for i in range(layers):
                x = F.conv2d(x, w[f"conv{i}.weight"])
            return (F.linear(x.mean((2, 3)), w["fc.weight"], w["fc.bias"]),)
        return run
    return make


def fork(w):
    def conv(name, x):
        return F.relu(F.conv2d(x, w[name + ".weight"], w[name + ".bias"]), inplace=True)

    def run(x):
        x = conv("conv", x)
        return (F.linear((conv("left", x) + conv("right", x)).mean((2, 3)), w["fc.weight"], w["fc.bias"]),)
    return run


def test_bert(heads, layers):
    def make(w):
        def run(x):
            for i in range(layers):
                def lin(name, x):
                    return F.linear(x, w[f"layer.{i}.{name}.weight"], w[f"layer.{i}.{name}.bias"])

                def norm(name, x):
                    return F.layer_norm(x, x.shape[-1:], w[f"layer.{i}.{name}.weight"], w[f"layer.{i}.{name}.bias"])
                q, k, v = [heads_of(lin(name, x), heads) for name in ("query", "key", "value")]
                y = merged((q @ k.transpose(-1, -2)) * (x.shape[-1] ** -0.5) @ v)
                x = norm("norm1", x + lin("output", y))
                x = norm("norm2", x + lin("outer", F.gelu(lin("inner", x))))
            return (F.linear(x.mean(1), w["fc.weight"], w["fc.bias"]),)
        return run
    return make


def unrolled_gan(unroll, lr=1e-4, b1=0.5, b2=0.999, eps=1e-8):
    """One plain Adam step of D, `unroll` differentiable ones, the loss of G against the last."""
    def make(w):
        names = [f"map{k}.{part}" for k in (1, 2, 3) for part in ("weight", "bias")]
        gen, d = [w["G." + n] for n in names], [w["D." + n] for n in names]
        m, v = [torch.zeros_like(x) for x in d], [torch.zeros_like(x) for x in d]
        count = [0]

        def mlp(p, x):
            x = F.relu(F.linear(x, p[0], p[1]))
            return F.linear(F.relu(F.linear(x, p[2], p[3])), p[4], p[5])

        def loss_of(p, real, fake):
            y = torch.sigmoid(mlp(p, torch.cat([real, fake])))
            n = real.shape[0]
            return -y[:n].log().mean() - (1 - y[n:]).log().mean()

        def adam(p, g, m, v, t):
            m = [b1 * a + (1 - b1) * x for a, x in zip(m, g)]
            v = [b2 * a + (1 - b2) * x * x for a, x in zip(v, g)]
            p = [x - lr * (a / (1 - b1 ** t)) / ((c / (1 - b2 ** t) + 1e-16).sqrt() + eps) for x, a, c in zip(p, m, v)]
            return p, m, v

        def run(noise, real, powers, scalars):
            count[0] += 1
            fakes = mlp(gen, noise)
            g = torch.autograd.grad(loss_of(d, real[0], fakes[0].detach()), d)
            with torch.no_grad():
                for a, b in zip(sum(map(list, (d, m, v)), []), sum(adam(d, g, m, v, count[0]), [])):
                    a.copy_(b)
            p, pm, pv = [x.detach().requires_grad_() for x in d], m, v
            for k in range(1, unroll + 1):
                g = torch.autograd.grad(loss_of(p, real[k], fakes[k]), p, create_graph=True)
                p, pm, pv = adam(p, g, pm, pv, count[0] + k)
            return (-torch.sigmoid(mlp(p, fakes[unroll + 1])).log().mean(),)
        return run
    return make


# ---- makers by name ----------------------------------------------------------------------------------------------------------

BLOCKS = {"cifar_resnet20": 3, "cifar_resnet32": 5, "cifar_resnet44": 7, "cifar_resnet56": 9, "cifar_resnet110": 18,
          "cifar_resnet1202": 200}
VISION = ("resnet18 resnet34 resnet50 resnet101 resnet152 densenet121 densenet161 densenet169 densenet201 inception_v3 "
          "googlenet mobilenet_v2 mnasnet1_0 shufflenet_v2_x1_0 vgg16 vgg16_bn vgg19 alexnet squeezenet1_1").split()


def vision(name, options):
    import torchvision
    more = {"init_weights": False, "aux_logits": False} if name in ("inception_v3", "googlenet") else {}
    return of_module(getattr(torchvision.models, name)(num_classes=options["classes"], **more))


def segment(kind, is_vgg):
    return lambda w: functions.segmentation(w, kind, is_vgg)


FUNCTIONS = {  # name -> function of the weights, from the options
    "mobilenet_v1": lambda o: lambda w: functions.mobilenet_v1(w, False),
    "inception_v4": lambda o: functions.inception_v4,
    "densenet_bc_100_12": lambda o: lambda w: functions.densenet_bc(w, [16, 16, 16]),
    "vgg_unet": lambda o: segment("unet", True),
    "unet_vanilla": lambda o: segment("unet", False),
    "segnet": lambda o: segment("segnet", False),
    "vgg_segnet": lambda o: segment("segnet", True),
    "fcn8": lambda o: segment("fcn8", False),
    "fcn8_vgg": lambda o: segment("fcn8", True),
    "deepcam": lambda o: lambda w: functions.deepcam(w, o["middle"]),
    "dtr_lstm": lambda o: functions.dtr_lstm,
    "dtr_treelstm": lambda o: lambda w: functions.dtr_tree(w, o["depth"]),
    "bert_base": lambda o: lambda w: functions.bert(w, o["heads"], o["layers"]),
    "bert_large": lambda o: lambda w: functions.bert(w, o["heads"], o["layers"]),
    "Bert": lambda o: bert_classifier(o["heads"], o["layers"]),
    "gpt2_124M": lambda o: gpt(o["heads"], o["layers"], "tokens", o["length"]),
    "gpt2_350M": lambda o: gpt(o["heads"], o["layers"], "tokens", o["length"]),
    "gpt3_epcc_13B": lambda o: gpt(o["heads"], o["layers"], "tokens", o["length"]),
    "GPT2_1B": lambda o: gpt(o["heads"], o["layers"], "classifier", o["length"]),
    "linear": lambda o: chain(o["layers"]),
    "test": lambda o: fork,
    "testBERT": lambda o: test_bert(o["heads"], o["layers"]),
    "unrolled_gan": lambda o: unrolled_gan(o["unroll"]),
    "unrolled_gan_large": lambda o: unrolled_gan(o["unroll"]),
}


def module(name, o, items):
    modules.F = InPlace()
    if name in BLOCKS:
        return modules.ResNet([BLOCKS[name]] * 3, 16, False, "cifar", o["classes"], "fan_in")
    if name == "resnet50_epcc":
        return modules.ResNet([3, 4, 6, 3], 64, True, "epcc", o["classes"], None)
    if name in ("unet", "unet_transposed"):
        return modules.UNet(o["planes"], o["depth"], name == "unet")
    if name == "cosmoflow":
        hidden = [shape[0] for item, shape, _ in items if item in ("l1.weight", "l2.weight")]
        return modules.CosmoFlow(o["channels"], o["size"], o["planes"], o["layers"], hidden)
    modules.F = F
    if name in ("wlm_lstm", "wlm_gru"):
        return modules.Words(name[4:].upper(), o["vocabulary"], o["embedding"], o["hidden"], o["layers"])
    if name == "wlm_transformer":
        return modules.WordTransformer(o["vocabulary"], o["width"], o["hidden"], o["heads"], o["layers"])
    if name == "transformer_12_6":
        return modules.Pair(o["width"], o["heads"], o["encoder_layers"], o["decoder_layers"], o["hidden"], 0.0)
    return None


def make(name, options, items):
    if name in VISION:
        return vision(name, options)
    if name in FUNCTIONS:
        # what DeepCAM's first block makes is read again behind its activation
        return of_function(FUNCTIONS[name](options), items, name != "deepcam")
    return of_module(module(name, options, items))


LOSSES = {
    "classes": lambda outputs, targets: sum(F.cross_entropy(o, t) for o, t in zip(outputs, targets)),
    "log classes": lambda outputs, targets: F.nll_loss(outputs[0], targets[0]),
    "mask": lambda outputs, targets: F.binary_cross_entropy_with_logits(outputs[0], targets[0]),
    "values": lambda outputs, targets: F.mse_loss(outputs[0], targets[0]),
    "own": lambda outputs, targets: outputs[0],
}


def loss_of(name, targets):
    if not targets:
        return LOSSES["own"]
    if targets[0].dtype == torch.int64:
        return LOSSES["log classes" if name in ("wlm_transformer", "densenet_bc_100_12") else "classes"]
    return LOSSES["mask" if name.startswith("unet") else "values"]


def data(inputs):
    """Tensors as ebb lists them: name, shape, range of integers (0: numbers), whether it is a target."""
    made, targets = [], []
    for name, shape, most, is_target in inputs:
        if name in ("hidden", "cell"):
            x = torch.zeros(shape)
        elif name == "mask" and most:
            x = torch.ones(shape, dtype=torch.int64)
        else:
            x = torch.randint(most, shape) if most else torch.rand(shape)
        (targets if is_target else made).append(x)
    return made, targets


def optimizer(name, args, parameters):
    return getattr(torch.optim, name)(parameters, **args)


def channels_last(model, inputs):
    def turned(x):
        kind = {4: torch.channels_last, 5: torch.channels_last_3d}.get(x.dim())
        return x.contiguous(memory_format=kind) if kind else x
    tensors = list(model.module.parameters()) if model.module else list(model.weights.values())
    for x in tensors:
        x.data = turned(x.data)
    return [turned(x) for x in inputs]
