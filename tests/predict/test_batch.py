"""Image files in batches: which ones are meant, and what their outputs are called."""

from pathlib import Path

from hnets.data.image_file import SUFFIXES
from hnets.predict.batch import find_images, output_names


def test_names_are_the_same_whatever_the_letters_case(tmp_path: Path) -> None:
    paths = [tmp_path / name for name in ("A.png", "a.jpg", "b.png", "a.jpg.gif")]
    assert output_names(paths, tmp_path, [".edges.png"]) == ["A", "a.jpg", "b", "a.jpg.gif"]


def test_inputs_that_name_no_image_are_listed_and_the_others_are_found(tmp_path: Path) -> None:
    empty, image = tmp_path / "empty", tmp_path / "a.png"
    empty.mkdir()
    image.touch()
    inputs = [empty, image, tmp_path / "*.gif", tmp_path / "b.png", tmp_path / "?.png"]
    paths, errors = find_images(map(str, inputs))
    assert paths == [image]
    assert [str(error) for error in errors] == [
        f"there is no image in the folder {empty}; expected files that end in "
        f"{', '.join(SUFFIXES)}",
        f"there is no file like {tmp_path}/*.gif; give the path of an image",
        f"there is no file {tmp_path}/b.png; give the path of an image",
    ]
