"""Networks on the Hugging Face Hub, or in folders of its layout: weights, options and a card."""

from __future__ import annotations

import json
import os
from functools import cache
from pathlib import Path
from typing import Any

from torch import nn

from hnets.errors import InputError, MissingExtra, reason
from hnets.files import replacing
from hnets.models._registry import load
from hnets.models._weights import WEIGHTS, save, unwrapped

_CARD = """---
{{ card_data }}
---

A rotation-equivariant network of the Python package `hnets`: `{{ name }}` with
`{{ options }}`.

```python
import hnets

network = hnets.from_pretrained("{{ repo_id | default("OWNER/NAME", true) }}")
```
"""


def save_pretrained(model: nn.Module, folder: str | os.PathLike[str]) -> Path:
    """Write a network to a folder as `push_to_hub` would upload it.

    It holds ``model.safetensors``, as `save` writes it, ``config.json`` with the network's name and
    options, and a model card, ``README.md``, unless there is one already.

    Args:
        model: made by `hnets.create_model` or a function of `hnets.models`.
        folder: where to; made if it does not exist.
    """
    _mixin()(model).save_pretrained(folder, model_card_kwargs=_described(model))
    return Path(folder)


def push_to_hub(model: nn.Module, repo_id: str, **options: Any) -> str:
    """Upload a network to the Hugging Face Hub, where `from_pretrained` finds it; the commit's URL.

    Args:
        model: made by `hnets.create_model` or a function of `hnets.models`.
        repo_id: the repository, ``"OWNER/NAME"``; made if it does not exist.
        options: those of `huggingface_hub.ModelHubMixin.push_to_hub`, such as ``private``,
            ``commit_message`` or ``token``.
    """
    card = {**_described(model), "repo_id": repo_id}
    return _reached(_mixin()(model).push_to_hub, repo_id, model_card_kwargs=card, **options)


def from_pretrained(source: str | os.PathLike[str], **options: Any) -> nn.Module:
    """A trained network, ready for inference, from the Hugging Face Hub or a folder of its layout.

    Args:
        source: a repository, ``"OWNER/NAME"``, or a folder that `save_pretrained` wrote.
        options: those of `huggingface_hub.ModelHubMixin.from_pretrained`, such as ``revision``,
            ``token`` or ``cache_dir``.
    """
    if Path(source).expanduser().is_dir():
        return load(source)
    if str(source).startswith((".", "/", "~")):  # no name of a repository does
        raise InputError(f"there is no folder {source}; hnets.save_pretrained writes one")
    return _reached(_mixin().from_pretrained, str(source), **options).model


def _described(model: nn.Module) -> dict[str, Any]:
    _, config = unwrapped(model)
    return {"name": config.name, "options": json.dumps(config.options, default=int)}


def _reached(call: Any, repo_id: str, **options: Any) -> Any:
    """What a call to the Hub gives; what is wrong with it is one line."""
    from huggingface_hub import errors

    http_error = vars(errors)["HTTPError"]  # of its HTTP client, which is not always the same
    try:
        return call(repo_id, **options)
    except InputError:
        raise
    except (OSError, ValueError, http_error) as error:  # no network, repository or permission
        raise InputError(f"the Hub could not be asked for {repo_id!r}: {reason(error)}") from None


@cache
def _mixin() -> Any:
    """The class that speaks to the Hub, made when it is first needed: its import takes a while."""
    try:
        from huggingface_hub import ModelHubMixin, hf_hub_download
    except ImportError:
        raise MissingExtra("networks on the Hub", "huggingface_hub", "hub") from None

    class HubNetwork(ModelHubMixin, library_name="hnets", model_card_template=_CARD):
        """A network with what the Hub needs to know of it."""

        def __init__(self, model: nn.Module) -> None:
            self.model = model

        def _save_pretrained(self, save_directory: Path) -> None:
            save(self.model, save_directory / WEIGHTS)
            with replacing(save_directory / "config.json") as part:
                card = _described(self.model)
                values = {"model": card["name"], "options": json.loads(card["options"])}
                part.write_text(json.dumps(values, indent=2) + "\n", encoding="utf-8")

        @classmethod
        def _from_pretrained(cls, *, model_id: str, **options: Any) -> HubNetwork:
            return cls(load(hf_hub_download(model_id, WEIGHTS, **options)))

    return HubNetwork
