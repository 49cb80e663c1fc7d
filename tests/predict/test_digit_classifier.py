"""The digit classifier: predictions in order, at every angle, by the networks that ship."""

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

from drawings import Corner, drawn
from hnets.data.image_file import ImageError
from hnets.predict import DigitClassifier, DigitPrediction, as_digit
from networks import digits


def test_answers_come_in_order_with_what_was_seen() -> None:
    pictures = [drawn(), np.asarray(drawn("2")), drawn("5", size=(50, 40), height=30)]
    found = DigitClassifier(digits()).classify(pictures)
    for picture, one in zip(pictures, found, strict=True):
        assert isinstance(one, DigitPrediction)
        assert np.array_equal(one.seen, as_digit(picture))
        assert one.probabilities.shape == (10,)
        assert one.probabilities.sum() == pytest.approx(1, abs=1e-5)
        assert one.probabilities[one.digit] == one.confidence == one.probabilities.max()
    assert repr(found[0]) == f"DigitPrediction({found[0].digit}, {found[0].confidence:.1%})"
    assert DigitClassifier(digits()).classify([]) == []


def test_a_blank_picture_among_others_is_named_by_its_number() -> None:
    with pytest.raises(ImageError, match="image 1"):
        DigitClassifier(digits()).classify([drawn(), Image.new("L", (40, 40))])


def test_the_model_given_is_left_as_it_is() -> None:
    net = digits().train()
    before = {key: value.clone() for key, value in net.state_dict().items()}
    classifier = DigitClassifier(net)
    classifier.classify([drawn()])
    assert net.training
    assert all(p.requires_grad for p in net.parameters())
    assert all(torch.equal(value, before[key]) for key, value in net.state_dict().items())
    prepared = torch.rand(3, 28, 28)
    expected = net.eval()(prepared[:, None]).softmax(1).detach().numpy()
    np.testing.assert_allclose(classifier.probabilities(prepared.numpy()), expected, atol=1e-5)


def test_turning_asks_at_every_angle() -> None:
    turning = DigitClassifier(Corner()).rotated(drawn("7"), angles=(0, 90, 180, 270))
    # The ink of a 7 is most in the top left quadrant; its turns are counter-clockwise.
    expected = [int(np.add.reduceat(np.add.reduceat(np.rot90(turning.original.seen, k), [0, 14], 0),
                                    [0, 14], 1).argmax()) for k in range(4)]  # fmt: skip
    assert turning.digits.tolist() == expected
    assert len(set(expected)) > 1
    assert turning.angles == (0, 90, 180, 270)
    assert turning.probabilities.shape == (4, 10)
    assert turning.same.tolist() == [digit == expected[0] for digit in expected]
    assert turning.share == turning.same.mean() < 1
    assert turning.lowest == turning.probabilities[:, turning.original.digit].min()


def test_a_harmonic_network_answers_quarter_turns_alike() -> None:
    turning = DigitClassifier(digits()).rotated(drawn())
    assert turning.angles == tuple(range(0, 360, 10))
    by_quarter = turning.probabilities.reshape(4, 9, 10)
    np.testing.assert_allclose(by_quarter, by_quarter[:1].repeat(4, 0), atol=1e-5)
    np.testing.assert_allclose(turning.probabilities[0], turning.original.probabilities, atol=1e-6)


def test_no_angles_are_refused() -> None:
    with pytest.raises(ValueError, match="at least one angle, got none"):
        DigitClassifier(digits()).rotated(drawn(), angles=())


# The weights that ship ----------------------------------------------------------------------------


def answers(images: Tensor, angles: NDArray[np.float64]) -> NDArray[np.int64]:
    """What the shipped network says of data as photographs: enlarged, turned, dark on light."""
    pictures = []
    for image, degrees in zip(images[:, 0].numpy(), angles, strict=True):
        small = Image.fromarray((255 * image).round().astype(np.uint8))
        large = small.resize((224, 224), Image.Resampling.BICUBIC)
        turned = large.rotate(degrees, Image.Resampling.BICUBIC)
        shade = np.linspace(230, 130, 224)[None, :]
        pictures.append((shade * (1 - 0.8 * np.asarray(turned) / 255)).astype(np.uint8))
    return np.array([one.digit for one in DigitClassifier().classify(pictures)])


@pytest.mark.parametrize(("name", "bound"), [("mnist", 0.94), ("digits", 0.82)])
def test_digits_are_read_at_any_angle(
    name: str, bound: float, request: pytest.FixtureRequest
) -> None:
    from hnets import data

    root = request.getfixturevalue("data_folder") if name == "mnist" else None
    images, labels = data.load(name, "test", root).subset(150)
    angles = np.random.default_rng(0).uniform(0, 360, len(labels))
    found, truth = answers(images, angles), labels.numpy()
    # A 6 and a 9 are the same at an angle that nobody knows.
    found, truth = (np.where(each == 9, 6, each) for each in (found, truth))
    assert (found == truth).mean() > bound
