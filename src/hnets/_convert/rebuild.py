"""A traced CNN, call by call, and the harmonic layers that replace its own.

Every tensor is a feature map with streams, or plain numbers that no rotation changes.
"""

from __future__ import annotations

import copy
import math
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from typing import Any, NamedTuple, TypeVar

import torch
from torch import Tensor, fx, nn

from hnets import functional as F
from hnets._convert import calls
from hnets.basis import Rings, harmonic_basis
from hnets.errors import InputError
from hnets.nn import AngularNorm2d, FourierAct, HAvgPool2d, HConv2d, HDropout2d
from hnets.nn._base import StreamModule, circle, square
from hnets.nn.conv import all_kernels
from hnets.streams import Streams

_ADVICE: dict[type, str] = {
    nn.ConvTranspose2d: "use nn.Upsample and a Conv2d",
    nn.LayerNorm: "use nn.BatchNorm2d",
    nn.GroupNorm: "use nn.BatchNorm2d",
    nn.InstanceNorm2d: "use nn.BatchNorm2d",
    nn.PReLU: "use nn.ReLU",
    nn.Upsample: "give it a whole number for both sides, as in scale_factor=2",
}


class ConversionError(InputError):
    """A network has a part that no harmonic layer stands for."""


class Replacement(NamedTuple):
    """What became of one call in the network."""

    name: str
    before: str
    after: str


class ReadOut(StreamModule):
    """A real order 0 as it is, and the magnitudes of the other orders: what no rotation changes."""

    def __init__(self, streams: Streams) -> None:
        super().__init__(streams)
        self.out_streams = Streams(f"{streams.fields}x0r")

    def forward(self, x: Tensor) -> Tensor:
        """``(batch, channels, height, width)`` to ``(batch, fields, height, width)``."""
        self.in_streams.check(x, "ReadOut")
        zero, others = x.tensor_split([self.in_streams[0].channels], dim=1)
        return torch.cat([zero, F.magnitude(others, self.in_streams[1:])], dim=1)


class Concatenation(nn.Module):
    """Concatenate fields of equal orders: order by order, not map after map."""

    def __init__(self, orders: int) -> None:
        super().__init__()
        self.blocks = 2 * orders + 1

    def forward(self, *maps: Tensor) -> Tensor:
        """Maps ``(batch, channels, height, width)`` to one."""
        split = [torch.unflatten(x, 1, (self.blocks, -1)) for x in maps]
        return torch.cat(split, dim=2).flatten(1, 2)


class ZeroBias(StreamModule):
    """Add a learned number to every field of the real order 0, the only one that can have it."""

    def __init__(self, streams: Streams) -> None:
        super().__init__(streams)
        self.bias = nn.Parameter(torch.zeros(streams[0].multiplicity))

    def forward(self, x: Tensor) -> Tensor:
        """``(batch, channels, height, width)`` of the same shape."""
        others = x.shape[1] - len(self.bias)
        return x + nn.functional.pad(self.bias, (0, others))[:, None, None]


class _Map(NamedTuple):
    """A feature map: what its channels are, and its height and width."""

    streams: Streams
    size: tuple[int, int]

    @property
    def real(self) -> bool:
        """Whether no rotation changes its channels: those of an image are so."""
        return self.streams[-1].real


class _Plain(NamedTuple):
    """Numbers that no rotation changes; ``features`` of them where the CNN had others."""

    features: int | None = None


S = TypeVar("S", _Map, _Plain)


class _Part(NamedTuple):
    """A new module, and what its name ends in beside that of the layer it replaces."""

    make: partial[Any]
    suffix: str = ""


def _part(
    kind: Callable[..., nn.Module], *arguments: Any, suffix: str = "", **options: Any
) -> _Part:
    return _Part(partial(kind, *arguments, **options), suffix)


@dataclass
class Walk:
    """One way through the graph of a CNN: what replaces each call, for images of one size."""

    model: nn.Module
    graph: fx.Graph
    orders: int
    mirror: bool
    channels: int
    widths: Mapping[int, int]
    """Fields of each order for each number of channels."""
    size: tuple[int, int]
    multiplications: int = field(default=0, init=False)
    exact: bool = field(default=True, init=False)
    """Whether every centre of equivariance stays where a rotation by 90 degrees puts it."""
    replacements: list[Replacement] = field(default_factory=list, init=False)

    def __post_init__(self) -> None:
        self._modules = dict(self.model.named_modules())
        self._state = dict[fx.Node, _Map | _Plain | None]()
        self._parts = dict[fx.Node, tuple[_Part, ...]]()
        self._absorbed = set[fx.Node]()
        """Activations that are part of what replaces the batch norm before them."""
        self._outputs = dict[fx.Node, Streams]()
        """Outputs with rotation orders, of which `ReadOut` gives what no rotation changes."""
        self._last = self._last_convolutions()
        for node in self.graph.nodes:
            state = self._state[node] = self._follow(node)
            if isinstance(state, _Map):  # such as one with more padding at two of its sides
                self.exact &= len(set(state.size)) == 1

    def build(self) -> fx.GraphModule:
        """The network."""
        graph, modules = fx.Graph(), dict[str, Any]()
        new, built = dict[fx.Node, fx.Node](), dict[tuple[str, str], str]()

        def name_of(node: fx.Node, part: _Part) -> str:
            """The name of a part, made where need be; one that is called twice alike stays one."""
            key, name = (calls.place(node), str(part)), f"{calls.place(node)}{part.suffix}"
            taken = modules | self._modules if part.suffix else modules
            while key not in built and name in taken:
                name += "_"
            if built.setdefault(key, name) not in modules:
                modules[name] = part.make()
            return built[key]

        for node in self.graph.nodes:
            if node.op == "output":
                for number, (each, streams) in enumerate(self._outputs.items()):
                    modules[f"output_{number}"] = ReadOut(streams)
                    new[each] = graph.call_module(f"output_{number}", (new[each],))
            if node in self._parts:
                values = tuple(new[each] for each in calls.tensors(node))
                for part in self._parts[node]:
                    values = (graph.call_module(name_of(node, part), values),)
                (new[node],) = values
                continue
            copied = new[node] = graph.node_copy(node, new.__getitem__)
            if node.op == "call_module":
                copied.target = name_of(node, _part(_fresh, self._module(node)))
            elif node.op == "get_attr":
                modules[str(node.target)] = _fresh(operator.attrgetter(node.target)(self.model))
            elif node.target in calls.ADD:  # not in place: a layer may need what it gave
                copied.op, copied.target = "call_function", torch.add
        network = fx.GraphModule(modules, graph, type(self.model).__name__)
        network.graph.eliminate_dead_code()  # sizes for a reshape that is a Flatten now
        network.delete_all_unused_submodules()
        network.recompile()
        return network

    def _follow(self, node: fx.Node) -> _Map | _Plain | None:
        """The state of a node's output, with the parts that replace it written down."""
        if node.op == "placeholder":
            if self._state:
                raise ConversionError("a network of several inputs cannot be converted")
            return _Map(Streams(f"{self.channels}x0r"), self.size)
        if node.op == "output":
            for each in node.all_input_nodes:
                if isinstance(state := self._state[each], _Map) and not state.real:
                    self._outputs[each] = state.streams
                    self.replacements.append(Replacement("output", calls.place(each), "ReadOut"))
            return None
        states = [self._state[each] for each in node.all_input_nodes]
        if (
            not any(states)
            or node.target == "size"
            or (node.target is getattr and node.args[1] == "shape")
        ):
            return None  # not a tensor
        maps = [state for state in states if isinstance(state, _Map)]
        if not maps:
            (plain, *_) = (state for state in states if isinstance(state, _Plain))
            return self._plain(node, plain)
        if node.target in calls.ADD:
            return self._add(node)
        if node.target in calls.CAT:
            return self._cat(node, maps)
        if len(maps) > 1:
            raise self._error(node, "maps are added or concatenated, and joined in no other way")
        if len(node.all_input_nodes) > 1 and node.target not in calls.FLATTEN:
            raise self._error(
                node,
                "no harmonic layer takes tensors or their sizes beside a map; give numbers, "
                "as in interpolate(x, scale_factor=2) or adaptive_avg_pool2d(x, 1)",
            )
        return self._layer(node, maps[0])

    def _layer(self, node: fx.Node, x: _Map) -> _Map | _Plain:
        """A layer with one input, a feature map."""
        layer = self._as_module(node)
        kind = type(layer)
        if kind is nn.Identity or node in self._absorbed:
            return self._replace(node, x)
        if isinstance(layer, nn.Conv2d) and kind is nn.Conv2d:
            return self._convolution(node, layer, x)
        if isinstance(layer, nn.MaxPool2d | nn.AvgPool2d):
            return self._pool(node, layer, x)
        if isinstance(layer, calls.GLOBAL):
            return self._global(node, layer, x)
        if isinstance(layer, nn.Flatten):
            mean = _part(nn.AdaptiveAvgPool2d, 1, suffix="_mean")
            return self._read_out(node, x, mean, _part(nn.Flatten))
        if isinstance(layer, nn.Upsample) and (times := calls.times(layer)):
            return x._replace(size=(x.size[0] * times, x.size[1] * times))
        if isinstance(layer, calls.DROPOUTS):
            part = _part(nn.Dropout, layer.p) if x.real else _part(HDropout2d, x.streams, layer.p)
            return self._replace(node, x, part)
        if x.real and kind in (nn.BatchNorm2d, *calls.ACTS):
            return x
        if kind is nn.BatchNorm2d:
            act = self._next(node)
            if act is None or not isinstance(function := self._as_module(act), calls.ACTS):
                return self._replace(node, x, _part(AngularNorm2d, x.streams))
            self._absorbed.add(act)
            return self._activate(node, function, x, norm=True)
        if kind in calls.ACTS and layer is not None:
            return self._activate(node, layer, x, norm=False)
        raise self._error(node, _ADVICE.get(kind, "no harmonic layer stands for it"))

    def _plain(self, node: fx.Node, x: _Plain) -> _Plain:
        """A call on numbers that no rotation changes: anything that takes as many as there are."""
        if node.target in (
            nn.functional.dropout,
            nn.functional.dropout2d,
        ):  # which of the two modes was fixed
            dropout: Any = self._as_module(node)
            return self._replace(node, x, _part(nn.Dropout, dropout.p))
        module = self._module(node)
        if isinstance(module, nn.Linear):
            features = x.features or module.in_features
            self.multiplications += features * module.out_features
            if x.features is not None:
                ends, bias = (features, module.out_features), module.bias is not None
                self._replace(node, x, _part(nn.Linear, *ends, bias=bias))
            return _Plain()
        if x.features is None:
            return x
        if type(module) is nn.BatchNorm1d:
            return self._replace(node, x, _part(nn.BatchNorm1d, x.features))
        if node.target in calls.FLATTEN:
            return self._replace(node, x, _part(nn.Flatten))
        free = (*calls.ACTS, *calls.DROPOUTS, nn.Identity, nn.Flatten)
        if isinstance(module, free) or node.target in (*calls.CALLS, "squeeze", torch.squeeze):
            return x
        raise self._error(node, "a Linear has to come first after the read-out")

    def _convolution(self, node: fx.Node, conv: nn.Conv2d, x: _Map) -> _Map:
        size, stride, dilation = self._sides(node, conv.kernel_size, conv.stride, conv.dilation)
        if conv.padding_mode not in ("zeros", "reflect"):
            raise self._error(node, 'use padding_mode="zeros" or "reflect"')
        depthwise = not x.real and conv.groups == conv.in_channels == conv.out_channels
        if conv.groups > 1 and not depthwise:
            raise self._error(
                node, f"groups={conv.groups}, and it is 1 or the channels of input and output"
            )
        parts, out = list[_Part](), circle(self.widths[conv.out_channels], self.orders)
        if depthwise:
            out = x.streams
        elif node in self._last:
            out = Streams(f"{conv.out_channels}x0r")
        strided = stride > 1 and (x.real or size % 2 == stride % 2)
        if stride > 1:
            x = self._shrink(x, stride)
            if not strided:
                parts.append(_part(HAvgPool2d, stride, suffix="_pool"))
        if node in self._last and size == 1 and not x.real:
            return self._mix(node, conv, x, *parts)
        kernel = self._kernel(size, stride if strided else 1) if size > 1 or x.real else 1
        pixels = (kernel - stride) // 2
        padding = (pixels, pixels) if strided else self._padding(conv, kernel)
        if not strided:
            grow = [2 * each - dilation * (kernel - 1) for each in padding]
            x = x._replace(size=(x.size[0] + grow[0], x.size[1] + grow[1]))
        if min(x.size) < 1:
            raise self._error(node, "its input is too small; give a larger input_shape")
        groups, fields = x.streams[0].multiplicity if depthwise else 1, out[0].multiplicity
        main = _part(
            HConv2d,
            *(x.streams, out, kernel),
            stride=stride if strided else 1,
            padding=padding,
            dilation=1 if strided else dilation,
            groups=groups,
            rings=_rings(kernel),
            padding_mode=conv.padding_mode,
            **all_kernels(self.mirror),
        )
        parts.append(main)
        after = self._next(node)
        if conv.bias is not None and type(after and self._module(after)) is not nn.BatchNorm2d:
            parts.append(_part(ZeroBias, out, suffix="_bias"))
        pairs = x.streams.channels * out.channels // groups
        if kernel == 1:
            joined = 2 * self.orders + 1 if self.mirror else 4 * self.orders + 1
            pairs = joined * x.streams[0].multiplicity * fields // groups
        self.multiplications += kernel**2 * pairs * math.prod(x.size)
        return self._replace(node, _Map(out, x.size), *parts)

    def _mix(self, node: fx.Node, conv: nn.Conv2d, x: _Map, *parts: _Part) -> _Map:
        """The last convolution, of 1×1: of what no rotation changes."""
        fields, bias = x.streams.fields, conv.bias is not None
        self.multiplications += fields * conv.out_channels * math.prod(x.size)
        mix = _part(nn.Conv2d, fields, conv.out_channels, 1, bias=bias)
        read_out = _part(ReadOut, x.streams, suffix="_read_out")
        y = x._replace(streams=Streams(f"{conv.out_channels}x0r"))
        return self._replace(node, y, *parts, read_out, mix)

    def _activate(self, node: fx.Node, act: nn.Module, x: _Map, norm: bool) -> _Map:
        function = torch.relu if type(act) is nn.ReLU else _out_of_place(act)
        return self._replace(node, x, _part(FourierAct, x.streams, act=function, norm=norm))

    def _pool(self, node: fx.Node, pool: nn.MaxPool2d | nn.AvgPool2d, x: _Map) -> _Map:
        size, stride = self._sides(node, pool.kernel_size, pool.stride)
        padding = 0 if pool.padding in (0, (0, 0)) else self._sides(node, pool.padding)[0]
        if getattr(pool, "return_indices", False):
            raise self._error(node, "use return_indices=False: a mean is of all pixels")
        if stride > 1:
            if pool.ceil_mode:
                raise self._error(node, "use ceil_mode=False: pixels that fill no square are cut")
            return self._replace(node, self._shrink(x, stride), _part(HAvgPool2d, stride))
        more = 2 * padding - size + 1
        y = x._replace(size=(x.size[0] + more, x.size[1] + more))
        return self._replace(node, y, _part(nn.AvgPool2d, size, 1, padding))

    def _sides(self, node: fx.Node, *values: Any) -> list[int]:
        try:
            return [square(each, "") for each in values]
        except ValueError:
            raise self._error(node, "give it one number for both sides") from None

    def _global(self, node: fx.Node, pool: Any, x: _Map) -> _Map | _Plain:
        """Pooling to a fixed size, most often one."""
        size = pool.output_size
        side: tuple[int, int] = size if isinstance(size, tuple) else (size, size)
        if side == (1, 1):
            flat = node.target in calls.MEAN and not calls.argument(node, 2, "keepdim", False)
            then = [_part(nn.Flatten, suffix="_flat")] if flat else []
            kind = next(each for each in calls.GLOBAL if isinstance(pool, each))
            return self._read_out(node, x, _part(kind, 1), *then)
        if None in side or not isinstance(pool, nn.AdaptiveAvgPool2d):
            raise self._error(node, "use nn.AdaptiveAvgPool2d of a number")
        return self._replace(node, x._replace(size=side), _part(nn.AdaptiveAvgPool2d, side))

    def _read_out(self, node: fx.Node, x: _Map, *then: _Part) -> _Plain:
        if x.real:
            return self._replace(node, _Plain(), *then)
        read_out = _part(ReadOut, x.streams, suffix="_read_out")
        return self._replace(node, _Plain(x.streams.fields), read_out, *then)

    def _add(self, node: fx.Node) -> _Map:
        values = (calls.argument(node, 0, "input", None), calls.argument(node, 1, "other", None))
        first, second = (self._state[v] if isinstance(v, fx.Node) else None for v in values)
        if not isinstance(first, _Map) or not isinstance(second, _Map):
            raise self._error(node, "a map is added to a map, and to nothing else")
        if first.streams != second.streams:
            raise self._error(node, f'it adds streams "{first.streams}" and "{second.streams}"')
        return first

    def _cat(self, node: fx.Node, maps: list[_Map]) -> _Map:
        orders = {len(each.streams) - 1 for each in maps}
        if calls.argument(node, 1, "dim", 0) not in (1, -3) or len(orders) > 1 or maps[0].real:
            raise self._error(node, "maps of the same orders are concatenated, in dimension 1")
        own = [self._state[each] for each in calls.tensors(node)]
        fields = sum(each.streams[0].multiplicity for each in own if isinstance(each, _Map))
        y = maps[0]._replace(streams=circle(fields, self.orders))
        return self._replace(node, y, _part(Concatenation, self.orders))

    def _shrink(self, x: _Map, stride: int) -> _Map:
        self.exact &= not any(side % stride for side in x.size)
        return x._replace(size=(x.size[0] // stride, x.size[1] // stride))

    def _kernel(self, size: int, stride: int) -> int:
        """The smallest kernel from a size up that carries all orders; even for an even stride."""
        least = max(size, stride)
        sizes = count(least + (least - stride) % 2 if stride > 1 else least, 2)
        orders = range(self.orders + 1)
        return next(n for n in sizes if all(len(harmonic_basis(n, m, _rings(n))) for m in orders))

    def _padding(self, conv: nn.Conv2d, kernel: int) -> tuple[int, int]:
        """Padding by which another kernel gives a map of the size of the CNN's."""
        step, size = conv.dilation[0], conv.kernel_size[0]
        if conv.padding == "same" or conv.stride[0] > 1:
            pixels = step * (kernel - 1) // 2
            return pixels, pixels
        height, width = (0, 0) if isinstance(conv.padding, str) else conv.padding
        more = step * (kernel - size) // 2
        return height + more, width + more

    def _next(self, node: fx.Node) -> fx.Node | None:
        """The call that alone takes the output, if there is one; an Identity is none."""
        while len(node.users) == 1:
            (node,) = node.users
            if type(self._module(node)) is not nn.Identity:
                return node
        return None

    def _module(self, node: fx.Node) -> nn.Module | None:
        return self._modules[str(node.target)] if node.op == "call_module" else None

    def _as_module(self, node: fx.Node) -> nn.Module | None:
        try:
            return calls.as_module(node, self._module(node))
        except ValueError as error:
            raise self._error(node, str(error)) from None

    def _last_convolutions(self) -> set[fx.Node]:
        """Convolutions that lead to outputs of the network alone, by pooling and the like."""
        last, after = set[fx.Node](), set[fx.Node]()
        like = (*calls.GLOBAL, *calls.DROPOUTS, *calls.ACTS)
        modules = (*like, nn.Flatten, nn.Identity, nn.Upsample, nn.BatchNorm2d)
        targets = (*calls.CALLS, *calls.MEAN, *calls.FLATTEN, "size", getattr, operator.getitem)
        for node in reversed(self.graph.nodes):
            if node.op != "output" and not (node.users and after.issuperset(node.users)):
                continue
            if type(self._module(node)) is nn.Conv2d:
                last.add(node)
            elif isinstance(self._module(node), modules) or node.target in (*targets, "output"):
                after.add(node)
        return last

    def _replace(self, node: fx.Node, state: S, *parts: _Part) -> S:
        """Write down what replaces a call; without parts it is left out."""
        self._parts[node] = parts
        if parts:
            before = calls.title(self._module(node)) or calls.called(node)
            after = " → ".join(_described(part.make) for part in parts)
            self.replacements.append(Replacement(calls.place(node), before, after))
        return state

    def _error(self, node: fx.Node, advice: str) -> ConversionError:
        module = self._module(node)
        alike = sum(type(each) is type(module) for each in self._modules.values())
        more = f" (one of {alike})" if alike > 1 else ""
        what = calls.title(module) or f"a call of {calls.called(node)}"
        return ConversionError(f"{calls.place(node)}: {what}{more} cannot be converted: {advice}")


def _fresh(module: Any) -> Any:
    """A copy with weights initialised anew."""
    module = copy.deepcopy(module)
    for part in module.modules() if isinstance(module, nn.Module) else ():
        if callable(reset := getattr(part, "reset_parameters", None)):
            reset()
    return module


def _out_of_place(act: nn.Module) -> nn.Module:
    act = copy.deepcopy(act)
    if hasattr(act, "inplace"):
        act.__dict__["inplace"] = False
    return act


def _rings(kernel: int) -> Rings:
    return "gaussian" if kernel >= 5 else "exact"


def _described(make: partial[Any]) -> str:
    """A new layer in a few words."""
    kind, arguments = make.func, make.args
    name = str(getattr(kind, "__name__", kind))
    if kind is HConv2d:
        stride = f", stride {make.keywords['stride']}" if make.keywords["stride"] != 1 else ""
        return f"{name} {arguments[1]}, {arguments[2]}×{arguments[2]}{stride}"
    if kind in (nn.Linear, nn.Conv2d):
        return f"{name} {arguments[0]} → {arguments[1]}"
    if kind is FourierAct:
        return f"{name}, normalised" if make.keywords["norm"] else name
    return f"{name} {arguments[0]}" if kind is HAvgPool2d else name
