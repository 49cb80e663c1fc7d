"""Cards of the weights that ship: a page, a table, and what the command prints."""

from pathlib import Path

import pytest

from commands import Command
from hnets.models import list_models
from hnets.studies.model_cards import card_page, cards_page

ROOT = Path(__file__).parents[2]


def test_the_page_of_cards_is_what_the_cards_say() -> None:
    written = (ROOT / "docs" / "models.md").read_text(encoding="utf-8")
    assert written == cards_page(), "run hnets models --page docs/models.md"


@pytest.mark.parametrize("name", list_models(pretrained=True))
def test_every_card_says_what_for_on_which_data_and_how_well(name: str) -> None:
    page = card_page(name)
    for fact in ("for", "not for", "size", "data", "licence of the data", "trained by"):
        assert f"- **{fact}**: " in page
    assert " ODS | OIS | AP |" in page or "test error, %" in page


def test_the_command_prints_a_card_or_all_in_short(hnets_command: Command, tmp_path: Path) -> None:
    done = hnets_command("models", "hdsn", "--page", str(tmp_path / "cards.md"))
    assert done.code == 0, done.err
    assert "licence of the data: research use" in done.out
    assert (tmp_path / "cards.md").read_text(encoding="utf-8") == cards_page()
    assert "hnet_mnist" in hnets_command("models").out
    done = hnets_command("models", "--page", str(tmp_path))
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
    assert "expected a file to write, got the folder" in done.err
    done = hnets_command("models", "zebra")
    assert (done.code, done.err.count("\n")) == (2, 1)
    assert "no trained weights for zebra; models that have some: " in done.err
