"""The hnets command: what it prints, and what it says about bad input."""

import io
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from PIL import Image

import hnets
from commands import Command
from hnets.train import shipped_recipes

REFUSALS = {
    "edges": "Missing argument",
    "edges missing.png": "there is no file missing.png; give the path of an image",
    "edges no*.png": "there is no file like no*.png",
    "edges a.png --scale 9": "expected numbers from 0.1 to 4",
    "edges a.png -o a.png": "expected a folder to write to, got 'a.png'",
    "digits missing.png": "there is no file missing.png",
    "turn --size 5": "expected a whole number from 64 to 1024",
    "quickstrat": "No such command 'quickstrat'",
}
WITHOUT = """
import sys
sys.modules.update(torch=None, matplotlib=None, skimage=None)
from hnets.cli import main
for arguments in sys.argv[1:]:
    sys.argv[:] = ["hnets", *arguments.split()]
    try:
        main()
    except SystemExit as stop:
        print("code", stop.code)
"""


def own_process(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run Python in a process of its own."""
    return subprocess.run(
        [sys.executable, *arguments],
        capture_output=True,
        encoding="utf-8",
        env={**os.environ, "COLUMNS": "80", "NO_COLOR": "1", **environment},
        timeout=300,
        check=False,
    )


@pytest.fixture(autouse=True)
def _elsewhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")


# In a process of its own ---------------------------------------------------------------------


def test_bad_input_is_refused_before_torch_is_imported() -> None:
    Path("a.png").touch()
    commands = list(REFUSALS)
    done = own_process("-c", WITHOUT, "--version", *commands)
    version, *codes = done.stdout.splitlines()
    assert version == f"hnets {hnets.__version__}", done.stderr
    assert codes == ["code 0"] + ["code 2"] * len(commands), done.stderr
    lines = done.stderr.splitlines()
    for command, line in zip(commands, lines, strict=True):
        assert line.startswith("hnets: ")
        assert REFUSALS[command] in line


def test_stopping_it_while_torch_is_imported_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text("raise KeyboardInterrupt")
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    done = own_process("-m", "hnets", "inspect", "cost", "hnet_mnist", PYTHONPATH=path)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "hnets: stopped\n")


def test_the_module_is_the_command() -> None:
    done = own_process("-m", "hnets", "quickstrat")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("hnets: No such command 'quickstrat'")
    assert done.stderr.count("\n") == 1


# In this process -----------------------------------------------------------------------------


def test_turn_on_a_photograph(hnets_command: Command) -> None:
    Image.radial_gradient("L").convert("RGB").save("a photo [1].jpg")
    done = hnets_command("turn", "a photo [1].jpg", "--out", "out", "--size", "64")
    assert done.code == 0, done.err
    assert done.out.rstrip().endswith(f"wrote {Path('out/turn.png')}")
    with Image.open("out/turn.png") as image:
        image.load()
        assert image.format == "PNG"


@pytest.mark.parametrize(
    ("command", "figure"),
    [
        ("turn", "turn-out/turn.png"),
        ("inspect stability", "stability.png"),
        ("inspect features", "features.png"),
        ("inspect flow", "flow.png"),
    ],
)
def test_a_figure_does_not_replace_the_image(
    hnets_command: Command, command: str, figure: str
) -> None:
    Path(figure).parent.mkdir(exist_ok=True)
    Image.radial_gradient("L").save(figure)
    content = Path(figure).read_bytes()
    done = hnets_command(*command.split(), figure)
    assert (done.code, done.out) == (2, "")
    assert f"--out: expected another file than the input, got '{figure}'" in done.err
    assert Path(figure).read_bytes() == content


def test_a_terminal_without_these_letters_is_no_trouble(
    hnets_command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr(sys, "stdout", terminal)
    assert hnets_command("inspect", "cost", "hnet_mnist").code == 0
    terminal.seek(0)
    printed = terminal.read()
    assert "33,347" in printed
    assert "?" in printed


def test_help_lists_the_commands(hnets_command: Command) -> None:
    for arguments in ((), ("--help",)):
        done = hnets_command(*arguments)
        assert done.code == 0
        for command in ("turn", "inspect", "digits"):
            assert command in done.out


@pytest.mark.parametrize("command", ["", "train", "edges", "predict", "models", "inspect features"])
def test_help_has_no_types_of_python(hnets_command: Command, command: str) -> None:
    shown = hnets_command(*command.split(), "--help").out
    assert "--help" in shown
    assert not re.search(r"<(bool|str|path|list)|BOOLEAN|\[\[", shown)


def test_a_command_that_is_misspelled(hnets_command: Command) -> None:
    err = hnets_command("edge").err
    assert err.startswith("hnets: No such command 'edge'")
    assert re.search("(; see|[?] See) hnets --help\n$", err)


@pytest.mark.parametrize("option", ["--size", "--sze 80"])
def test_errors_about_options_lead_to_the_help_of_the_command(
    hnets_command: Command, option: str
) -> None:
    done = hnets_command("turn", *option.split())
    assert (done.code, done.out) == (2, "")
    assert done.err.endswith("; see hnets turn --help\n")


def test_cost_of_the_papers_network(hnets_command: Command) -> None:
    done = hnets_command("inspect", "cost", "hnet_mnist")
    assert done.code == 0
    assert "33,347" in done.out
    assert "92,649,200" in done.out
    assert hnets_command("inspect", "cost", "hnet_mnist", "--size", "32x48").code == 0


@pytest.mark.parametrize("name", ["harmonics.png", "figures/harmonics.svg"])
def test_harmonics(hnets_command: Command, name: str) -> None:
    done = hnets_command("inspect", "harmonics", "--out", name)
    assert (done.code, done.out.strip()) == (0, f"wrote {Path(name)}")
    assert Path(name).stat().st_size > 1000


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("inspect cost", "Missing argument .*; see hnets inspect cost --help"),
        ("inspect cost hnet_minst", "no model is called 'hnet_minst'; did you mean 'hnet_mnist"),
        ("inspect cost zzz", "no model is called 'zzz'; choose from hdsn"),
        ("inspect cost hnet_mnist --size 28", "'28' is not HEIGHTxWIDTH in pixels.*; write 28x28"),
        ("inspect cost hnet_mnist --size 0x9", "'0x9' is not HEIGHTxWIDTH"),
        ("inspect cost hnet_mnist --size 99999x2", "'99999x2' is not HEIGHTxWIDTH"),
        ("inspect cost hnet_mnist --size 2x2", "2x2 is too small for hnet_mnist; try 28x28"),
        ("inspect cost z2cnn --size 20x28", "20x28 is too small for z2cnn; try 28x28"),
        ("inspect harmonics --out x.jpg", r"expected a file that ends in .*, got 'x\.jpg'"),
        ("inspect harmonics --out taken/x.png", "expected a folder to write to, got 'taken'"),
        ("turn --size 5", "expected a whole number from 64 to 1024, got '5'"),
        ("turn --size big", "expected a whole number from 64 to 1024, got 'big'"),
        ("turn --seed -1", "expected a whole number from 0 to .*, got '-1'"),
        ("turn --colour", "No such option: --colour.*; see hnets turn --help"),
        ("turn a.png b.png", "unexpected extra argument.*; see hnets turn --help"),
        ("turn missing.jpg", r"there is no file missing\.jpg; give the path of an image"),
        ("turn taken", "taken is not an image that can be read"),
        ("turn fine.png --out taken", "expected a folder to write to, got 'taken'"),
    ],
)
def test_bad_input(hnets_command: Command, arguments: str, message: str) -> None:
    Path("taken").write_text("a file that is in the way")
    Image.new("RGB", (40, 40)).save("fine.png")
    done = hnets_command(*arguments.split())
    assert (done.code, done.out) == (2, "")
    assert done.err.count("\n") == 1
    assert re.search(message, done.err), done.err
    assert not Path("turn-out").exists(), "a command that failed left a folder behind"


@pytest.mark.parametrize("package", ["matplotlib", "skimage"])
def test_a_missing_package_is_named_with_its_remedy(
    hnets_command: Command, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [n for n in sys.modules if n == package or n.startswith(f"{package}.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)
    done = hnets_command("turn", "--size", "64")
    assert (done.code, done.out) == (2, "")
    assert "pip install" in done.err
    assert done.err.count("\n") == 1


def test_a_full_disk_is_one_line(hnets_command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    from matplotlib.figure import Figure

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device", "harmonics.png")

    monkeypatch.setattr(Figure, "savefig", full)
    done = hnets_command("inspect", "harmonics")
    assert (done.code, done.out) == (1, "")
    assert done.err == "hnets: harmonics.png: No space left on device\n"


@pytest.mark.parametrize(
    ("method", "arguments", "path"),
    [
        ("read_text", "train --resume --out run", "run/run.json"),
        ("iterdir", "train pictures-small --set data.name=run", "run"),
    ],
)
def test_what_may_not_be_read_is_bad_input(
    hnets_command: Command,
    monkeypatch: pytest.MonkeyPatch,
    method: str,
    arguments: str,
    path: str,
) -> None:
    def denied(path: Path, **_: object) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    Path("run/red").mkdir(parents=True)
    monkeypatch.setattr(Path, method, denied)
    done = hnets_command(*arguments.split())
    message = f"hnets: {path} cannot be opened (Permission denied); change its permissions, or "
    assert (done.code, done.err) == (2, f"{message}name another\n")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_a_full_disk_behind_stdout_is_one_line() -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "hnets", "models"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert (done.returncode, done.stderr) == (1, "hnets: No space left on device\n")


def test_stopping_it_is_one_line(hnets_command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(hnets, "cost", stop)
    done = hnets_command("inspect", "cost", "hnet_mnist")
    assert done.code == 130
    assert "Traceback" not in done.err


def test_recipes_for_a_folder_of_the_user_come_first(
    hnets_command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    lines = hnets_command("train").out.splitlines()
    rows = [line.split("│")[1].strip() for line in lines if line.startswith("│")]
    names = [name for name in rows if name]
    assert names[:3] == ["pictures-large", "pictures-segment", "pictures-small"]
    assert sorted(names) == [name for name in shipped_recipes() if name != "rotmnist-r-svm"]
    assert lines[-1] == "hnets train pictures-small --set data.name=FOLDER"
