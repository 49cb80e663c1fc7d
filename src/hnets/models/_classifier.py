"""What classifiers share, with the names and habits of timm."""

from __future__ import annotations

import operator
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from torch import Tensor, nn

from hnets.models._weights import remember_options
from hnets.nn._base import whole
from hnets.streams import Streams


class Classifier(nn.Module, ABC):
    """A network of features and a head, whose last layer can be replaced or left out.

    Args:
        in_chans: channels of the images.
        num_classes: classes of the images; 0 leaves the last layer out.
    """

    num_features: int
    """Numbers per image that `forward_head` gives with ``pre_logits``."""
    last_layer: ClassVar[str] = "fc"
    """Which part is replaced: its name."""
    feature_info: list[dict[str, Any]]
    """Channels, reduction and module of the maps on the way to the features, the finest first."""

    def __init__(self, in_chans: int, num_classes: int) -> None:
        super().__init__()
        self.in_chans = whole(in_chans, "in_chans")
        self.num_classes = whole(num_classes, "num_classes", least=0)

    @abstractmethod
    def forward_features(self, x: Tensor) -> Tensor:
        """The last maps of images ``(batch, in_chans, height, width)``."""

    @abstractmethod
    def forward_head(self, x: Tensor, pre_logits: bool = False) -> Tensor:
        """Logits ``(batch, num_classes)`` of those maps, or the features that they are made of."""

    def forward(self, x: Tensor) -> Tensor:
        """Logits ``(batch, num_classes)`` of images ``(batch, in_chans, height, width)``."""
        return self.forward_head(self.forward_features(x))

    def get_classifier(self) -> nn.Module:
        """The last layer."""
        return self.get_submodule(self.last_layer)

    def reset_classifier(self, num_classes: int) -> None:
        """Replace the last layer by a new one for other classes; 0 leaves it out.

        `hnets.save` then writes, and `hnets.load` builds, a network with these classes.
        """
        self.num_classes = whole(num_classes, "num_classes", least=0)
        like = next(self.parameters())
        layer = self._new_classifier() if num_classes else nn.Identity()
        self.set_submodule(self.last_layer, layer.to(like.device, like.dtype))
        remember_options(self, num_classes=self.num_classes)

    def _new_classifier(self) -> nn.Module:
        return nn.Linear(self.num_features, self.num_classes)


def info_of(layer: int, streams: Streams, reduction: int) -> dict[str, Any]:
    """An entry of ``feature_info``: that of a layer of a network whose ``layers`` it counts."""
    module = f"layers.{layer}"
    chans = streams.channels
    return {"num_chs": chans, "reduction": reduction, "module": module, "streams": streams}


class FeatureInfo:
    """Channels and resolutions of the maps that a network with ``features_only`` returns.

    As in timm: ``channels()`` and ``reduction()`` are of the maps that are returned, or of those at
    an index or indices among all; an item is a mapping with all that is known of a map.

    >>> info = FeatureInfo([{"num_chs": 30, "reduction": 2}, {"num_chs": 60, "reduction": 4}], [1])
    >>> info.channels(), info.reduction(0), info[0]["num_chs"]
    ([60], 2, 30)
    """

    def __init__(self, info: Sequence[Mapping[str, Any]], out_indices: Sequence[int]) -> None:
        self.info = [dict(each) for each in info]
        self.out_indices = tuple(out_indices)

    def get(self, key: str, idx: int | Sequence[int] | None = None) -> Any:
        """One entry of each map that is returned, or of those at an index or indices."""
        if isinstance(idx, int):
            return self.info[idx][key]
        return [self.info[each][key] for each in (self.out_indices if idx is None else idx)]

    def get_dicts(
        self, keys: Sequence[str] | None = None, idx: Sequence[int] | None = None
    ) -> list[dict[str, Any]]:
        """Some or all entries of the maps that are returned, or of those at indices."""
        chosen = [self.info[each] for each in (self.out_indices if idx is None else idx)]
        return [{key: each[key] for key in (each if keys is None else keys)} for each in chosen]

    def channels(self, idx: int | Sequence[int] | None = None) -> Any:
        """Real channels."""
        return self.get("num_chs", idx)

    def reduction(self, idx: int | Sequence[int] | None = None) -> Any:
        """How many times smaller than the image."""
        return self.get("reduction", idx)

    def module_name(self, idx: int | Sequence[int] | None = None) -> Any:
        """Which part of the network makes them."""
        return self.get("module", idx)

    def __getitem__(self, index: int) -> dict[str, Any]:
        return self.info[index]

    def __len__(self) -> int:
        return len(self.info)


def indices_of(out_indices: int | Sequence[int] | None, count: int) -> tuple[int, ...]:
    """Which of ``count`` maps are meant: all, the last few, or those named, in rising order.

    >>> indices_of(None, 3), indices_of(2, 3), indices_of((0, -1), 3)
    ((0, 1, 2), (1, 2), (0, 2))
    """
    wanted = (
        f"out_indices are whole numbers from {-count} to {count - 1} (one alone, from 1 to "
        f"{count}, is how many of the last), each map once and in order"
    )
    if out_indices is None:
        return tuple(range(count))
    try:
        if isinstance(out_indices, int):
            chosen = tuple(range(count - whole(out_indices, "out_indices"), count))
        else:
            chosen = tuple(operator.index(i) + count * (i < 0) for i in out_indices)
    except (TypeError, ValueError):
        raise ValueError(f"{wanted}, got {out_indices!r}") from None
    if not chosen or list(chosen) != sorted(set(chosen) & set(range(count))):
        raise ValueError(f"{wanted}, got {out_indices!r}")
    return chosen
