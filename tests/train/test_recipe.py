"""Recipes: what is in them, and what is said about a wrong one."""

import contextlib
import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hnets.errors import InputError
from hnets.train import Recipe, read_recipe, shipped_recipes
from hnets.train.recipe import Data, Model, Training, to_toml
from hnets.train.run import build
from hnets.train.task import Classification

SMALLEST = 'title = "t"\n[model]\nname = "z2cnn"\n[data]\nname = "digits"\n'


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "mine.toml"
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize("name", shipped_recipes())
def test_shipped_recipes_are_read_by_name_and_name_a_model(name: str) -> None:
    recipe = read_recipe(name)
    assert recipe.title
    assert recipe.data.test == "test"
    assert Recipe.from_dict(recipe.to_dict()) == recipe


def test_the_smallest_recipe_has_the_papers_defaults(tmp_path: Path) -> None:
    recipe = read_recipe(written(tmp_path, SMALLEST))
    assert (recipe.training.epochs, recipe.training.batch) == (200, 46)
    assert recipe.optimiser.rate == 0.0076
    assert (recipe.data.train, recipe.data.val, recipe.data.test) == ("train", "val", "")


def test_changes_are_applied_in_order_and_typed(tmp_path: Path) -> None:
    path = written(tmp_path, SMALLEST)
    recipe = read_recipe(
        path,
        ["training.epochs=3", "optimiser.rate = 1", "model.name=p4cnn", "title=a = b",
         "data.val=", "model.options={dropout = 0.1}", "model.options.dropout=0.5",
         "training.deterministic=true"],
    )  # fmt: skip
    assert recipe.training == Training(epochs=3, deterministic=True)
    assert recipe.optimiser.rate == 1.0
    assert isinstance(recipe.optimiser.rate, float)
    assert (recipe.model.name, recipe.title, recipe.data.val) == ("p4cnn", "a = b", "")
    assert recipe.model.options == {"dropout": 0.5}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (SMALLEST + "[optimizer]\nrate = 1", "a recipe has no key 'optimizer'; did you mean 'opt"),
        (SMALLEST + "[training]\nepoch = 1", r"\[training\] has no key 'epoch'; did you mean 'epo"),
        (SMALLEST + "[training]\nzebra = 1", "has no key 'zebra'; choose from epochs, batch"),
        (SMALLEST + '[training]\nepochs = "9"', "training.epochs: expected a whole number, got"),
        (SMALLEST + "[training]\nepochs = 1.5", "epochs: expected a whole number, got 1.5"),
        (SMALLEST + "[training]\nepochs = true", "training.epochs: expected a whole number"),
        (SMALLEST + "[training]\nepochs = 0", "epochs: expected a whole number from 1 up, got 0"),
        (SMALLEST + "[optimiser]\nrate = nan", "optimiser.rate: expected a number, got nan"),
        (SMALLEST + "[optimiser]\nrate = -1", "optimiser.rate: expected a number above 0"),
        (SMALLEST + '[schedule]\nname = "cosin"', "one of constant, step.*did you mean 'cosine'?"),
        (SMALLEST + "[training]\ndeterministic = 1", "expected true or false, got 1"),
        (SMALLEST + "[augment]\nshift = 1.0\nkeep_centre = true", "shift: expected 0 beside keep"),
        (SMALLEST + "[augment]\ngamma = 0.5\nkeep_centre = true", "gamma: expected 0 beside keep"),
        (SMALLEST + "[optimiser]\neps = -1.0", "optimiser.eps: expected a number above 0"),
        (SMALLEST + 'train = "train+val"', "val: expected a split that shares no image with data."),
        (SMALLEST + 'test = "train"', "test: expected a split that shares no image .* 'train'"),
        (SMALLEST + "workers = 1000", "workers: expected a whole number from 0 to 256, got"),
        (SMALLEST + "[training]\nseed = 4294967296", "seed: expected a whole number below"),
        (SMALLEST + "[training]\nema = 1.0", "ema: expected a number from 0 to below 1, got 1.0"),
        (SMALLEST + "augment = 3", "has no key 'augment'; choose from name"),
        ("augment = 3\n" + SMALLEST, "augment: expected a table of keys, got 3"),
        ('title = "t"\n[data]\nname = "digits"', "a recipe needs a key 'model'"),
        ('title = "t"\n[model]\n[data]\nname = "digits"', r"\[model\] needs a key 'name'"),
        ("title = ", "is not valid TOML: "),
        (SMALLEST + 'val = ""\n[schedule]\nname = "plateau"', "watches the validation error"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_one_line_that_suggests_the_right_thing(
    tmp_path: Path, text: str, message: str
) -> None:
    with pytest.raises(InputError, match=message) as caught:
        read_recipe(written(tmp_path, text))
    assert "\n" not in str(caught.value)
    assert "mine.toml" in str(caught.value)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("epochs=3", "a recipe has no key 'epochs'; did you mean 'training.epochs'"),
        ("training.epohcs=3", "no key 'training.epohcs'; did you mean 'training.epochs'"),
        ("training=3", "a recipe has no key 'training'"),
        ("training.epochs", "expected key=value, as in training.epochs=10, got 'training.epochs'"),
        ("training.epochs=many", "training.epochs: expected a whole number, got 'many'"),
        ("=3", "expected key=value"),
        ("training.batch.x=1", "a recipe has no key 'training.batch.x'"),
    ],
)
def test_wrong_changes(tmp_path: Path, change: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_recipe(written(tmp_path, SMALLEST), [change])


def test_a_value_has_no_keys_of_its_own(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"model\.options\.a: expected a table of keys, got 1"):
        read_recipe(written(tmp_path, SMALLEST), ["model.options.a=1", "model.options.a.b=2"])


@pytest.mark.parametrize(
    "change",
    ["training.epochs=WORD", "model.options=WORD", "WORD=1", "WORD", "schedule.name=WORD"],
)
def test_long_values_are_cut_short_in_an_error(tmp_path: Path, change: str) -> None:
    with pytest.raises(InputError, match=r"'?x{90,100}…") as caught:
        read_recipe(written(tmp_path, SMALLEST), [change.replace("WORD", "x" * 10_000)])
    assert len(str(caught.value)) < 1000
    values = {"optimiser": {"y" * 10_000: 1}, **tomllib.loads(SMALLEST)}
    with pytest.raises(InputError, match=r"\[optimiser\] has no key 'y+…; choose from rate"):
        Recipe.from_dict(values)


def test_numbers_of_thousands_of_digits_are_refused_in_one_line(tmp_path: Path) -> None:
    digits = "9" * 5000
    with pytest.raises(InputError, match=r"mine.toml is not valid TOML: Exceeds the limit"):
        read_recipe(written(tmp_path, f"{SMALLEST}[training]\nepochs = {digits}"))
    with pytest.raises(InputError, match=r"training.epochs: expected a whole number, got '9+…"):
        read_recipe(written(tmp_path, SMALLEST), [f"training.epochs={digits}"])


def test_missing_and_unreadable_files(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"there is no recipe or .toml file nowhere.toml; "):
        read_recipe("nowhere.toml")
    with pytest.raises(InputError, match="did you mean 'rotmnist-r-hnet'"):
        read_recipe("rotmnist-hnet")
    with pytest.raises(InputError, match=r"got the folder .*; .* --set data.name=.*"):
        read_recipe(tmp_path)
    path = tmp_path / "latin.toml"
    path.write_bytes(b'title = "\xe9"')
    with pytest.raises(InputError, match="it is not text in UTF-8"):
        read_recipe(path)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
        lambda inner: (
            st.lists(inner, max_size=2)
            | st.dictionaries(
                st.sampled_from(["title", "model", "name", "data", "training", "epochs", "x"]),
                inner,
            )
        ),
        max_leaves=8,
    )
)
def test_whatever_comes_is_a_recipe_or_one_clear_error(values: object) -> None:
    with contextlib.suppress(InputError):
        Recipe.from_dict(values)


TEXT = st.text(st.characters(codec="utf-8"))
VALUES = st.recursive(
    TEXT | st.integers() | st.booleans() | st.floats(allow_nan=False),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)


@given(TEXT, st.dictionaries(TEXT, VALUES, max_size=4))
def test_recipes_round_trip_through_toml(title: str, options: dict[str, object]) -> None:
    recipe = Recipe(title, Model("z2cnn", options), Data('C:\\images\\"mine"')).replace(
        {"search.space": {"optimiser.rate": {"low": 1e-300, "high": 0.1 + 0.2, "log": True}}}
    )
    assert Recipe.from_dict(tomllib.loads(to_toml(recipe))) == recipe


def test_a_model_is_built_for_the_shape_of_the_data() -> None:
    from hnets.data import load

    data = load("digits", "val").subset(5)
    recipe = read_recipe("rotmnist-r-hnet")
    assert (
        sum(p.numel() for p in build(recipe, 1, Classification.of(recipe, data)).parameters())
        == 33347
    )


@pytest.mark.parametrize("name", ["plankton", "mirabest"])
def test_recipes_that_are_compared_differ_in_network_and_optimiser_alone(name: str) -> None:
    recipes = [one for one in shipped_recipes() if one.startswith(f"{name}-")]
    assert f"{name}-resnet18" in recipes
    assert len(recipes) >= 2
    same = []
    for recipe in map(read_recipe, recipes):
        values = recipe.to_dict()
        same.append({key: values[key] for key in ("data", "augment", "schedule", "training")})
    assert all(one == same[0] for one in same)
