"""The support vector machine of Table 1."""

import dataclasses

import pytest
import torch

from hnets.data import load
from hnets.errors import InputError
from hnets.studies.svm import check_svm, train_svm
from hnets.train import read_recipe


def test_the_support_vector_machine_is_that_of_scikit_learn() -> None:
    from sklearn.svm import SVC

    recipe = read_recipe("rotmnist-r-svm", ["data.name=digits-r", "data.limit=300"])
    result = train_svm(recipe, "mine")
    assert result["name"] == "mine"
    options = recipe.model.options
    train, test = load("digits-r", "train+val").subset(300), load("digits-r", "test")
    machine = SVC(C=options["C"], gamma=options["gamma"], kernel="rbf")
    machine.fit(train.images.flatten(1).numpy(), train.labels.numpy())
    answers = torch.from_numpy(machine.predict(test.images.flatten(1).numpy()))
    expected = 100 * float((answers != test.labels).float().mean())
    assert result["summary"]["test"]["mean"] == pytest.approx(expected, abs=0.21)
    wrong = dataclasses.replace(recipe.model, options={"C": 1.0})
    with pytest.raises(InputError, match="an svm has the options C and gamma"):
        train_svm(dataclasses.replace(recipe, model=wrong))


@pytest.mark.parametrize("option", ["C", "gamma"])
@pytest.mark.parametrize("value", ["foo", "-1", "0", "nan", "inf", "true"])
def test_the_options_of_the_support_vector_machine_are_numbers_above_0(
    option: str, value: str
) -> None:
    recipe = read_recipe("rotmnist-r-svm", [f"model.options.{option}={value}"])
    for use in (check_svm, train_svm):
        with pytest.raises(InputError, match=f"^model.options.{option}: expected a number above 0"):
            use(recipe)
