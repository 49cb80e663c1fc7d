"""Runs: what is wrong with a recipe, its data or its folder is said before any work."""

import hashlib
import json
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from PIL import Image

from commands import Command
from hnets import create_model, data, load, save
from hnets.data import Streamed
from hnets.errors import InputError
from hnets.train import (
    Recipe,
    Run,
    Team,
    Unwritable,
    begin,
    prepare,
    remember,
    seeds_of,
    train,
)
from hnets.train.recipe import to_toml

TEAM = Team(0, 1, torch.device("cpu"))
Recipes = Callable[..., Recipe]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model.name": "hnet_mnits"}, "no model is called 'hnet_mnits'; did you mean 'hnet_mn"),
        ({"model.options": {"width": 3}}, r"\[model\] .*z2cnn has no option 'width'; choose from"),
        ({"model.options.num_classes": 5}, "num_classes: expected 2, as the data say, got 5"),
        (
            {"model.name": "unet"},
            "an output per image.*, which has classes, and no folders images and masks, got unet",
        ),
        ({"data.name": "rotmnist-x"}, "there is no data set or folder 'rotmnist-x'"),
        ({"data.train": "trian"}, "there is no split 'trian'"),
        ({"data.test": "tset"}, "there is no split 'tset'"),
        ({"data.limit": 10**6}, "data.limit: expected at most the 46 images of .*, got 1000000"),
        ({"data.hold_out": [46, 99]}, r"hold_out: expected a part of the 46 images.*\[46, 99\]"),
        (
            {"data.share": 0.1},
            "training.batch: .* the 4 images of .*, got 23; lower it with --set",
        ),
        (
            {"data.transfer": "val"},
            r"data.transfer: expected a data set named otherwise than a split.*; write \./val",
        ),
        ({"data.fold": 3}, "mirabest has folds 0 to 9, and others have none; got fold=3"),
        ({"training.batch": 47}, "training.batch: expected at most the 46 images of .*, got 47"),
        ({"training.batch": 10**30}, "training.batch: expected at most the 46 images"),
        (
            {"training.batch": 1, "model.name": "hnet_fourier_tiny"},
            "batches of 1 with images of 1×28×28: .* more",
        ),
        (
            {"data.size": 2, "model.name": "hnet_fourier_tiny"},
            "with images of 1×2×2: .* too small",
        ),
    ],
)
def test_what_a_recipe_asks_for_has_to_exist_and_to_fit(
    tiny: Recipes, changes: dict[str, object], message: str
) -> None:
    with pytest.raises(InputError, match=message) as caught:
        prepare([Run(tiny().replace(changes), 1)], TEAM)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("other", ["masks", "classes"])
def test_a_set_to_transfer_to_has_the_same_classes(
    tiny: Recipes, shapes: Path, tmp_path: Path, other: str
) -> None:
    if other == "masks":
        shutil.copytree(shapes / "test" / "bar", tmp_path / "images")
        (tmp_path / "masks").mkdir()
        for image in (tmp_path / "images").iterdir():
            mask = Image.open(image).point(lambda value: 255 * (value > 127))
            mask.save(tmp_path / "masks" / image.name)
    else:
        shutil.copytree(shapes, tmp_path, dirs_exist_ok=True)
        for split in ("train", "val", "test"):
            (tmp_path / split / "bar").rename(tmp_path / split / "ring")
    recipe = tiny(data__transfer=str(tmp_path), training__label_smoothing=0.1)
    with pytest.raises(InputError, match=r"data.transfer: expected a set with the .* classes of"):
        prepare([Run(recipe, 1)], TEAM)


def test_brackets_in_the_name_of_a_data_set_are_no_markup(
    tiny: Recipes, shapes: Path, tmp_path: Path, hnets_command: Command
) -> None:
    other = shutil.copytree(shapes, tmp_path / "old [" / "b]")
    recipe = tmp_path / "tiny.toml"
    recipe.write_text(to_toml(tiny(training__epochs=1, data__transfer=str(other))))
    done = hnets_command("train", str(recipe), "--out", str(tmp_path / "10:100:1"))
    assert (done.code, done.err) == (0, "")
    assert f"wrote {tmp_path}/10:100:1/result.json" in done.out  # with no symbol for 100
    assert f"{other} error" in done.out


def test_a_part_of_the_training_images_alone_is_held_out(tiny: Recipes) -> None:
    whole, parts = Run(tiny(), 1), Run(tiny(data__hold_out=[1, 3]), 1)
    prepare([whole, parts], TEAM)
    assert (
        parts.data["train"].digest
        == whole.data["train"].subset([n for n in range(46) if n % 3 != 1]).digest
    )
    assert parts.data["val"].digest == whole.data["val"].digest


def test_runs_of_one_recipe_share_data_that_are_loaded_once(
    tiny: Recipes, monkeypatch: pytest.MonkeyPatch
) -> None:
    from hnets import data

    loaded, load = list[str](), data.load
    monkeypatch.setattr(
        data, "load", lambda name, split, **rest: loaded.append(split) or load(name, split, **rest)
    )
    recipe = tiny(data__test="test", training__epochs=1)
    first, second = Run(recipe, 1), Run(recipe, 2)
    prepare([first, second], TEAM)
    assert loaded == ["train", "val", "test"]
    assert first.tasks["train"] is second.tasks["train"]
    results = train([first, second], TEAM)
    assert {split for one in results for split in one.evaluate()} == {"train", "val", "test"}
    assert loaded == ["train", "val", "test"]


def test_sets_that_fill_the_memory_are_streamed_and_a_line_says_so(
    tiny: Recipes, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HNETS_CACHE", str(tmp_path))
    recipe, lines = tiny(data__workers=1), list[str]()
    needed = 46 * 28 * 28 * 4
    for has, stream, streamed in (
        (4 * needed, "auto", set()),
        (4 * needed - 4, "auto", {"train"}),
        (0, "auto", {"train", "val"}),
        (0, False, set()),
        (4 * needed, True, {"train", "val"}),
    ):
        monkeypatch.setattr("hnets.train.run.memory", lambda _, has=has: has)
        one = Run(recipe.replace({"data.stream": stream}), 1)
        lines.clear()
        prepare([one], TEAM, say=lines.append)
        assert {split for split, d in one.data.items() if isinstance(d, Streamed)} == streamed
        assert len(lines) == len(streamed)
        one.close()
    monkeypatch.setattr("hnets.train.run.memory", lambda _: 4 * needed - 4)
    prepare([Run(recipe, 1)], TEAM, say=lines.append)
    message = "they would take 0.0 GB, over a quarter of the 0.0 GB of cpu"
    assert lines[-1].endswith(f"train: 46 images are streamed, as {message}")


def test_a_limit_holds_for_a_stream_too(
    tiny: Recipes, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HNETS_CACHE", str(tmp_path))
    recipe = tiny(data__stream=True, data__limit=30, training__epochs=1)
    with pytest.raises(InputError, match=r"data\.limit: expected at most the 46 images"):
        prepare([Run(recipe.replace({"data.limit": 47}), 1)], TEAM)
    streamed = train([Run(recipe, 1)], TEAM)[0]
    memory = train([Run(recipe.replace({"data.stream": False}), 1)], TEAM)[0]
    assert streamed.history[0]["loss"] == memory.history[0]["loss"]
    assert streamed.evaluate() == memory.evaluate()
    with pytest.raises(InputError, match="digits is held in memory; images of a folder can be"):
        prepare([Run(tiny(data__name="digits", data__stream=True), 1)], TEAM)


def test_a_share_keeps_the_same_part_of_every_class(tiny: Recipes) -> None:
    run = Run(tiny(data__share=0.2, training__batch=5), 1)
    prepare([run], TEAM)
    whole, part = data.load(run.recipe.data.name), run.data["train"]
    assert torch.bincount(part.labels).tolist() == [5, 5]
    assert torch.equal(part.images, whole.subset(data.stratified(whole.labels, 0.2)).images)
    assert len(run.data["val"]) == 10, "only training labels are few"


@pytest.mark.parametrize(
    ("name", "device", "message"),
    [
        ("nowhere", "cpu", "there is no data set or folder 'nowhere'"),
        ("digits-r", "tpu", "expected a device such as cpu or cuda, got 'tpu'"),
    ],
)
def test_a_recipe_that_cannot_start_leaves_no_folder(
    tmp_path: Path,
    name: str,
    device: str,
    message: str,
    tiny: Recipes,
    hnets_command: Command,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mine.toml").write_text(to_toml(tiny(data__name=name)))
    done = hnets_command("train", "mine.toml", "--device", device)
    assert done.code == 2
    assert message in done.err
    assert [path.name for path in tmp_path.iterdir()] == ["mine.toml"]


def test_folders_that_cannot_be_written_to_or_resumed(
    tmp_path: Path, tiny: Recipes, hnets_command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    recipe = tiny(training__epochs=1)
    Path("mine.toml").write_text(to_toml(recipe))
    Path("taken").write_text("")
    done = hnets_command("train", "mine.toml", "--out", "taken", "--device", "cpu")
    assert done.code == 2
    assert "expected a folder to write to, got 'taken'" in done.err
    with pytest.raises(Unwritable, match=r"taken/run.* could not be written"):
        train([Run(recipe, 1, Path("taken/run"))], TEAM)
    assert "there is no run in runs/ to go on with" in hnets_command("train", "--resume").err
    done = hnets_command("train", "--resume", "--out", "elsewhere")
    assert "elsewhere holds no run to go on with" in done.err
    Path("runs/old").mkdir(parents=True)
    no_seeds = json.dumps({"name": "old", "recipe": recipe.to_dict(), "seeds": 0})
    for text in ('{"name": 3}', no_seeds):
        Path("runs/old/run.json").write_text(text)
        done = hnets_command("train", "--resume")
        assert done.code == 2
        assert "runs/old/run.json is damaged" in done.err


@pytest.mark.parametrize("option", ["--set training.epochs=2", "--seeds 2"])
def test_options_of_a_recipe_are_refused_without_one(
    option: str,
    tmp_path: Path,
    tiny: Recipes,
    hnets_command: Command,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    done = hnets_command("train", "--resume", *option.split())
    assert done.code == 2
    assert f"{option.split()[0]} is for a recipe: give that too" in done.err


def test_the_newest_run_is_found_while_others_write(
    tmp_path: Path, tiny: Recipes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for number, name in enumerate(("new", "old")):
        runs = seeds_of(tiny(), 1, Path("runs", name), name)
        remember(runs, Path("runs", name))
        for run in runs:
            run.close()
        for path in (Path("runs", name), Path("runs", name, "seed-1")):
            os.utime(path, (1000 - number, 1000 - number))
    Path("runs/old/seed-1/.hnets-gone.part").symlink_to("nowhere")  # as of a file that is gone
    os.utime("runs/old/seed-1", (999, 999))
    assert begin(None, [], 1, None, True)[1] == Path("runs/new")


def test_what_a_killed_process_left_of_a_write_is_removed(tmp_path: Path, tiny: Recipes) -> None:
    for name in (".hnets-one.part", ".hnets-two.part", "mine.part"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "checkpoint.safetensors").write_bytes(b"half")
    first, second = Run(tiny(), 1, tmp_path), Run(tiny(), 1, tmp_path)
    first.open()
    assert {path.name for path in tmp_path.iterdir()} == {".lock", "mine.part"}
    (tmp_path / ".hnets-now.part").mkdir()
    with pytest.raises(InputError, match="in use by another training"):
        second.open()  # and leaves alone what the first is writing
    assert (tmp_path / ".hnets-now.part").is_dir()
    first.close()


def test_the_support_vector_machine_is_no_training(hnets_command: Command) -> None:
    done = hnets_command("train", "rotmnist-r-svm")
    assert done.code == 2
    assert "fitted by hnets reproduce table1 --train --rows rotmnist-r-svm" in done.err


def test_a_recipe_for_a_folder_of_ones_own_says_how_to_name_it(
    tmp_path: Path, hnets_command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = hnets_command("train", "pictures-small")
    assert done.code == 2
    assert "name it with --set data.name=FOLDER" in done.err


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tiny: Recipes) -> Path:
    """A folder to be in, with a recipe, and weights of its network for five classes."""
    monkeypatch.chdir(tmp_path)
    Path("mine.toml").write_text(to_toml(tiny(training__epochs=1, optimiser__rate=1e-12)))
    torch.manual_seed(5)
    save(create_model("z2cnn", num_classes=5), "five.safetensors")
    return tmp_path


def test_training_begins_with_trained_weights_but_for_another_number_of_classes(
    elsewhere: Path, hnets_command: Command
) -> None:
    done = hnets_command("train", "mine.toml", "--from", "five.safetensors")
    assert done.code == 0
    line = next(line for line in done.out.splitlines() if "begins with" in line)
    assert "the weights of five.safetensors, but for those of its 5 classes" in line
    _, _, names = line.partition("start anew: ")
    before, after = load("five.safetensors"), load("runs/mine")
    for (name, old), new in zip(before.named_parameters(), after.parameters(), strict=True):
        if name in names.split(", "):
            assert (old.shape[0], new.shape[0]) == (5, 2)
        else:
            torch.testing.assert_close(new, old, atol=1e-6, rtol=0)
    start = json.loads(Path("runs/mine/result.json").read_text())["from"]
    digest = hashlib.sha256(Path("five.safetensors").read_bytes()).hexdigest()
    assert start == {"source": "five.safetensors", "sha256": digest}
    # The folder of that run has weights for the same classes.
    again = hnets_command("train", "mine.toml", "--from", "runs/mine", "--out", "second")
    assert "begins with all weights of runs/mine\n" in again.out


def test_training_begins_with_a_backbone_and_says_which_options_differ(
    elsewhere: Path, hnets_command: Command, tiny: Recipes
) -> None:
    options = {"fields": [2, 2, 2, 2], "reduction": 8}
    recipe = tiny(training__epochs=1, model__name="hresnet10", model__options=options)
    Path("mine.toml").write_text(to_toml(recipe))
    headless = create_model("hresnet10", **options | {"reduction": 16}, in_chans=1, num_classes=0)
    save(headless, "headless.safetensors")
    done = hnets_command("train", "mine.toml", "--from", "headless.safetensors")
    assert done.code == 0
    assert (
        "begins with the weights of headless.safetensors (its reduction was 16 and is 8 here), but "
        "for those of the last layer, which it lacks, which start anew: fc.weight, fc.bias\n"
    ) in done.out


def test_weights_to_begin_with_are_checked_on_resume(
    elsewhere: Path, hnets_command: Command
) -> None:
    assert hnets_command("train", "mine.toml", "--from", "five.safetensors").code == 0
    assert hnets_command("train", "--resume").code == 0  # it knows the weights it began with
    done = hnets_command("train", "mine.toml", "--resume")
    assert done.code == 2
    assert "began with --from five.safetensors, got random weights: change it back" in done.err
    save(create_model("z2cnn", num_classes=5), "five.safetensors")
    done = hnets_command("train", "mine.toml", "--resume", "--from", "five.safetensors")
    assert "got another file of that name" in done.err
    Path("five.safetensors").unlink()
    assert hnets_command("train", "--resume").code == 0  # the checkpoint has all that it needs


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (
            "hnet_mnits",
            "no model is called 'hnet_mnits', nor is there such a file; did you mean",
        ),
        ("nowhere/run", "there is no file or folder nowhere/run"),
        ("mine.toml", "mine.toml is not a safetensors file"),
        ("hnet_mnist", "does not fit this Z2CNN: .*; it holds hnet_mnist with in_chans=1, num_"),
        ("colour.safetensors", r"expected layers.0.0.weight of shape \(20, 1, 3, 3\), got \(20, 3"),
    ],
)
def test_weights_that_do_not_fit_are_one_line(
    elsewhere: Path, hnets_command: Command, source: str, message: str
) -> None:
    save(create_model("z2cnn", in_chans=3, num_classes=2), "colour.safetensors")
    done = hnets_command("train", "mine.toml", "--from", source)
    assert done.code == 2
    assert re.search(message, done.err), done.err
    assert done.err.count("\n") == 1
    assert not Path("runs").exists()
