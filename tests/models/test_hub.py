"""Networks in the layout of the Hugging Face Hub; the Hub itself is a folder here."""

import json
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import huggingface_hub
import pytest
import torch
from torch import nn

import hnets
from hnets.errors import InputError, MissingExtra
from hnets.models import _hub


@pytest.fixture(autouse=True)
def _afresh() -> Iterator[None]:
    """The class that speaks to the Hub is made with what a test puts in its place."""
    _hub._mixin.cache_clear()
    yield
    _hub._mixin.cache_clear()


@pytest.fixture
def network() -> nn.Module:
    torch.manual_seed(0)
    return hnets.create_model("hnet_mnist", num_classes=3, in_chans=2).eval()


def same(one: nn.Module, other: nn.Module) -> bool:
    x = torch.randn(1, 2, 28, 28)
    return torch.equal(one(x), other(x))


def test_a_folder_of_the_layout_of_the_hub_is_loaded_again(
    tmp_path: Path, network: nn.Module
) -> None:
    folder = hnets.save_pretrained(network, tmp_path / "mine")
    assert {path.name for path in folder.iterdir()} == {
        "README.md", "config.json", "model.safetensors",
    }  # fmt: skip
    config = json.loads((folder / "config.json").read_text())
    assert config["model"] == "hnet_mnist"
    assert config["options"]["num_classes"] == 3
    card = (folder / "README.md").read_text()
    assert "library_name: hnets" in card
    assert "hnets.from_pretrained(" in card
    loaded = hnets.from_pretrained(folder)
    assert not loaded.training
    assert same(loaded, network)
    assert same(hnets.load(folder), network)
    (folder / "README.md").write_text("my own card")
    hnets.save_pretrained(network, folder)
    assert (folder / "README.md").read_text() == "my own card"


def test_a_network_goes_to_the_hub_and_comes_back(
    tmp_path: Path, network: nn.Module, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Api:
        def __init__(self, **options: Any) -> None:
            pass

        def create_repo(self, repo_id: str, **options: Any) -> Any:
            assert options["private"]
            return huggingface_hub.RepoUrl(f"https://huggingface.co/{repo_id}")

        def upload_folder(self, repo_id: str, folder_path: Path, **options: Any) -> str:
            shutil.copytree(folder_path, tmp_path / repo_id)
            return f"https://huggingface.co/{repo_id}/commit/1"

    def download(repo_id: str, filename: str, **options: Any) -> str:
        assert options["revision"] == "v1"
        return str(tmp_path / repo_id / filename)

    monkeypatch.setattr("huggingface_hub.hub_mixin.HfApi", Api)
    monkeypatch.setattr("huggingface_hub.hub_mixin.hf_hub_download", lambda **o: download(**o))
    monkeypatch.setattr("huggingface_hub.hf_hub_download", download)
    url = hnets.push_to_hub(network, "me/leaves", private=True)
    assert url.endswith("me/leaves/commit/1")
    assert 'from_pretrained("me/leaves")' in (tmp_path / "me/leaves/README.md").read_text()
    assert same(hnets.from_pretrained("me/leaves", revision="v1"), network)


@pytest.mark.parametrize("source", ["nobody/nothing", "a/b/c"])
def test_what_the_hub_does_not_give_is_one_line(tmp_path: Path, source: str) -> None:
    with pytest.raises(InputError, match=f"the Hub could not be asked for '{source}': ") as caught:
        hnets.from_pretrained(source, local_files_only=True, cache_dir=tmp_path)
    assert "\n" not in str(caught.value)


def test_a_hub_out_of_reach_is_one_line(
    network: nn.Module, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unreachable(self: Any, *arguments: Any, **options: Any) -> None:
        raise vars(huggingface_hub.errors)["HTTPError"]("Name or service not known")

    monkeypatch.setattr("huggingface_hub.hub_mixin.HfApi.create_repo", unreachable)
    with pytest.raises(InputError, match="the Hub could not be asked for 'me/leaves': Name or"):
        hnets.push_to_hub(network, "me/leaves")


def test_a_folder_that_does_not_exist_is_not_looked_for_on_the_hub(tmp_path: Path) -> None:
    for source in (tmp_path / "nowhere", "./nowhere"):
        with pytest.raises(InputError, match=r"^there is no folder .*nowhere; hnets.save_pre"):
            hnets.from_pretrained(source)


def test_networks_of_someone_else_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"expected a network of hnets.create_model, got a Linear"):
        hnets.save_pretrained(nn.Linear(2, 2), tmp_path / "mine")
    assert not (tmp_path / "mine").exists()


def test_the_extra_is_named_where_it_is_missing(
    tmp_path: Path, network: nn.Module, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(MissingExtra, match=r'need huggingface_hub: pip install "hnets\[hub\]"'):
        hnets.save_pretrained(network, tmp_path)
