"""Networks that were trained on a folder of images, used on others."""

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

import hnets
from drawings import blobs
from hnets.data import fit
from hnets.errors import InputError
from hnets.models._weights import remember_training
from networks import lively

CLASSES = {"size": 24, "channels": 1, "classes": ["oak", "ash", "elm"]}
MASKS = {"size": 32, "channels": 3, "threshold": 0.4}


def network(facts: dict[str, Any]) -> nn.Module:
    """A small network that says that it was trained so."""
    torch.manual_seed(0)
    if "classes" in facts:
        net = hnets.create_model("hresnet10", in_chans=1, num_classes=3, fields=(2, 2, 2, 2))
    else:
        net = hnets.create_model("hunet", in_chans=3, num_classes=1, width=1)
    lively(net, torch.rand(4, facts["channels"], facts["size"], facts["size"]))
    remember_training(net, facts)
    return net.eval()


@pytest.fixture
def file(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    return hnets.save(network(request.param), tmp_path / "model.safetensors")


@pytest.mark.parametrize("facts", [CLASSES, MASKS])
def test_weights_say_what_the_network_was_trained_for(facts: Any, tmp_path: Path) -> None:
    net = network(facts)
    path = hnets.save(net, tmp_path / "a.safetensors")
    assert path.read_bytes() == hnets.save(net, tmp_path / "b.safetensors").read_bytes()
    loaded = hnets.load(path)
    assert loaded.config.trained == facts
    loaded.reset_classifier(7)
    assert not loaded.config.trained  # of other classes nothing is known


@pytest.mark.parametrize("file", [CLASSES], indirect=True)
def test_a_classifier_takes_images_in_the_form_that_it_learned_from(file: Path) -> None:
    classifier = hnets.ImageClassifier(file)
    assert classifier.classes == ("oak", "ash", "elm")
    image = Image.fromarray(blobs())
    x = torch.from_numpy(fit(image, 24, 1))[None] / 255
    with torch.no_grad():
        expected = hnets.load(file)(x).softmax(1)[0].numpy()
    forms = [image, np.asarray(image), np.asarray(image, np.float32) / 255]
    for prediction in (*map(classifier, forms), *classifier.classify(forms)):
        np.testing.assert_allclose(prediction.probabilities, expected, atol=1e-5)
    assert prediction.name == classifier.classes[expected.argmax()]
    assert prediction.confidence == pytest.approx(float(expected.max()), abs=1e-5)
    values = [value for _, value in prediction.ranked()]
    assert values == sorted(values, reverse=True)
    assert len(prediction.ranked(2)) == 2
    assert classifier.classify([]) == []
    rotated = classifier(np.rot90(np.asarray(image)))
    np.testing.assert_allclose(rotated.probabilities, expected, atol=1e-4)


def test_a_network_may_be_wrapped() -> None:
    net, image = network(CLASSES), blobs()
    wrapped = hnets.ImageClassifier(nn.DataParallel(net))(image)
    assert (
        wrapped.probabilities.tolist() == hnets.ImageClassifier(net)(image).probabilities.tolist()
    )


@pytest.mark.parametrize("file", [CLASSES], indirect=True)
def test_a_file_is_decoded_as_for_the_training(file: Path, tmp_path: Path) -> None:
    photo = tmp_path / "photo.jpg"
    Image.fromarray(blobs(800, 1000)).save(photo)
    prepared = hnets.ImageClassifier(file).network.prepare(photo)
    for name in ("a", "b"):
        folder = tmp_path / "set" / name
        folder.mkdir(parents=True)
        for number in range(3):
            shutil.copy(photo, folder / f"{number}.jpg")
    learned = hnets.data.load(tmp_path / "set", size=24, channels=1).images
    assert (torch.from_numpy(prepared) == (255 * learned[0]).round()).all()


@pytest.mark.parametrize("file", [MASKS], indirect=True)
def test_a_segmentation_has_the_size_of_the_image_and_rotates_with_it(file: Path) -> None:
    segmenter, image = hnets.Segmenter(file), blobs(40, 60)
    probability = segmenter(image)
    assert probability.shape == (40, 60)
    assert probability.dtype == np.float32
    same = blobs(20, 32)  # of the network's own size, so that nothing is resized
    np.testing.assert_allclose(segmenter(np.rot90(same)), np.rot90(segmenter(same)), atol=1e-6)
    x = torch.from_numpy(fit(Image.fromarray(image), 32, 3))[None] / 255
    with torch.no_grad():
        output = hnets.load(file)(x).sigmoid()[0, 0]
    assert abs(float(output[6:-6].mean()) - float(probability.mean())) < 0.02  # without margins
    mask = np.asarray(segmenter.draw(image, "mask"))
    assert ((mask == 255) == (probability >= 0.4)).all()
    assert set(np.unique(mask)) <= {0, 255}
    grey = np.asarray(segmenter.draw(image, "probability"))
    np.testing.assert_allclose(grey / 255, probability, atol=0.003)
    assert segmenter.draw(image, "overlay").size == (60, 40)
    with pytest.raises(InputError, match="there is no kind 'masks' of image; did you mean 'mask'"):
        segmenter.draw(image, "masks")


@pytest.mark.parametrize("file", [CLASSES], indirect=True)
def test_networks_for_something_else_are_refused(file: Path) -> None:
    with pytest.raises(
        InputError, match=r"learned masks, got .*safetensors, which learned classes"
    ):
        hnets.Segmenter(file)
    with pytest.raises(
        InputError, match=r"got hnet_mnist, whose weights do not say .* hnets digits"
    ):
        hnets.ImageClassifier("hnet_mnist")
    with pytest.raises(InputError, match="classify takes a list of images"):
        hnets.ImageClassifier(file).classify("a.png")


@pytest.mark.parametrize(
    ("facts", "key", "value"),
    [
        (CLASSES, "size", "24"),
        (CLASSES, "channels", 2),
        (CLASSES, "channels", 3),
        (CLASSES, "classes", ["oak", "ash"]),
        (CLASSES, "classes", "oak"),
        (MASKS, "threshold", None),
        (MASKS, "size", 0),
        (MASKS, "size", 10**9),
    ],
)
def test_facts_of_another_kind_are_refused(facts: Any, key: str, value: Any) -> None:
    net = network(facts)
    remember_training(net, {**facts, key: value})
    kind = hnets.ImageClassifier if "classes" in facts else hnets.Segmenter
    with pytest.raises(
        InputError, match="says what images it takes in a way that hnets train does not write"
    ):
        kind(net)
