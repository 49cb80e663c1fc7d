"""The digit classifier: predictions in order, at every angle, by the networks that ship."""

from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

import hnets
from drawings import Corner, drawn
from hnets.data.image_file import ImageError
from hnets.errors import InputError
from hnets.predict import DigitClassifier, DigitPrediction, as_digit
from networks import digits


def test_predictions_come_in_order_with_what_was_seen() -> None:
    images = [drawn(), np.asarray(drawn("2")), drawn("5", size=(50, 40), height=30)]
    predictions = DigitClassifier(digits()).classify(images)
    for image, one in zip(images, predictions, strict=True):
        assert isinstance(one, DigitPrediction)
        assert np.array_equal(one.seen, as_digit(image))
        assert one.probabilities.shape == (10,)
        assert one.probabilities.sum() == pytest.approx(1, abs=1e-5)
        assert one.probabilities[one.digit] == one.confidence == one.probabilities.max()
    first = predictions[0]
    assert repr(first) == f"DigitPrediction({first.digit}, {first.confidence:.1%})"
    assert DigitClassifier(digits()).classify([]) == []


def test_a_blank_image_among_others_is_named_by_its_number() -> None:
    with pytest.raises(ImageError, match="image 1"):
        DigitClassifier(digits()).classify([drawn(), Image.new("L", (40, 40))])


def test_the_model_itself_is_left_as_it_is() -> None:
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


def test_weights_may_be_a_name_a_file_or_the_folder_of_a_run(tmp_path: Path) -> None:
    path = hnets.save(hnets.load("z2cnn"), tmp_path / "seed-0" / "model.safetensors")
    image = np.asarray(drawn("5"))
    (expected,) = DigitClassifier("z2cnn").classify([image])
    for source in (path, str(path), path.parent, tmp_path):
        (prediction,) = DigitClassifier(source).classify([image])
        np.testing.assert_array_equal(prediction.probabilities, expected.probabilities)
    three = hnets.save(hnets.create_model("z2cnn", num_classes=3), tmp_path / "three.safetensors")
    for source in ("hdsn", three):
        with pytest.raises(InputError, match="expected a network that reads digits, such as hnet_"):
            DigitClassifier(source)


def test_rotated_predicts_at_every_angle() -> None:
    rotated = DigitClassifier(Corner()).rotated(drawn("7"), angles=(0, 90, 180, 270))
    # The ink of a 7 is most in the top left quadrant; its rotations are counter-clockwise.
    expected = [int(np.add.reduceat(np.add.reduceat(np.rot90(rotated.original.seen, k), [0, 14], 0),
                                    [0, 14], 1).argmax()) for k in range(4)]  # fmt: skip
    assert rotated.digits.tolist() == expected
    assert len(set(expected)) > 1
    assert rotated.angles == (0, 90, 180, 270)
    assert rotated.probabilities.shape == (4, 10)
    assert rotated.same.tolist() == [digit == expected[0] for digit in expected]
    assert rotated.share == rotated.same.mean() < 1
    assert rotated.lowest == rotated.probabilities[:, rotated.original.digit].min()


def test_a_harmonic_network_predicts_the_same_after_rotations_by_90_degrees() -> None:
    rotated = DigitClassifier(digits()).rotated(drawn())
    assert rotated.angles == tuple(range(0, 360, 10))
    by_quarter = rotated.probabilities.reshape(4, 9, 10)
    np.testing.assert_allclose(by_quarter, by_quarter[:1].repeat(4, 0), atol=1e-5)
    np.testing.assert_allclose(rotated.probabilities[0], rotated.original.probabilities, atol=1e-6)


def test_no_angles_are_refused() -> None:
    with pytest.raises(ValueError, match="at least one angle, got none"):
        DigitClassifier(digits()).rotated(drawn(), angles=())


# The weights that ship ----------------------------------------------------------------------------


def predicted(data: Tensor, angles: NDArray[np.float64]) -> NDArray[np.int64]:
    """The digits that the shipped network sees in photographs of data: rotated, dark on light."""
    images = []
    for image, degrees in zip(data[:, 0].numpy(), angles, strict=True):
        small = Image.fromarray((255 * image).round().astype(np.uint8))
        large = small.resize((224, 224), Image.Resampling.BICUBIC)
        rotated = large.rotate(degrees, Image.Resampling.BICUBIC)
        shade = np.linspace(230, 130, 224)[None, :]
        images.append((shade * (1 - 0.8 * np.asarray(rotated) / 255)).astype(np.uint8))
    return np.array([one.digit for one in DigitClassifier().classify(images)])


@pytest.mark.parametrize(("name", "bound"), [("mnist", 0.94), ("digits", 0.82)])
def test_digits_are_read_at_any_angle(
    name: str, bound: float, request: pytest.FixtureRequest
) -> None:
    from hnets import data

    root = request.getfixturevalue("data_folder") if name == "mnist" else None
    images, labels = data.load(name, "test", root).subset(100)
    angles = np.random.default_rng(0).uniform(0, 360, len(labels))
    digits_read, truth = predicted(images, angles), labels.numpy()
    # A 6 and a 9 are the same at an angle that nobody knows.
    digits_read, truth = (np.where(each == 9, 6, each) for each in (digits_read, truth))
    assert (digits_read == truth).mean() > bound


def test_one_image_is_a_call_and_a_path_will_do(tmp_path: Path) -> None:
    classifier, image = DigitClassifier(digits()), drawn()
    image.save(tmp_path / "digit.png")
    (expected,) = classifier.classify([image])
    for source in (image, tmp_path / "digit.png", str(tmp_path / "digit.png")):
        assert np.array_equal(classifier(source).probabilities, expected.probabilities)
    with pytest.raises(InputError, match="classify takes a list of images; for one, call the"):
        classifier.classify(image)
