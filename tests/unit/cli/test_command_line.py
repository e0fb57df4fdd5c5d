"""What the command line shows: groups with whole sentences, the version, tables of at most 100 columns."""

from __future__ import annotations

import pytest

from orderfree import __version__
from orderfree.build import load_config
from orderfree.cli.common import SCORES_SHOWN, print_scores, table_settings
from orderfree.cli.groups import GROUPS
from orderfree.cli.main import app, run


def shown(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    with pytest.raises(SystemExit) as ended:
        run(list(arguments))
    assert ended.value.code == 0
    return capsys.readouterr().out


def test_every_command_stands_in_one_group_with_a_whole_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    page = shown(capsys, "--help")
    assert "..." not in page.split("Use:")[1]
    headings = [line for line in page.splitlines() if line.endswith(":") and not line.startswith((" ", "Usage"))]
    assert headings == ["Options:", "Use:", "Improve:", "Research:"]
    listed = [
        line.split()[0] for line in page.split("Use:")[1].splitlines() if line.startswith("  ") and line[2] != " "
    ]
    registered = [command.name for command in app.registered_commands]
    registered += [group.name for group in app.registered_groups]
    assert sorted(listed) == sorted(str(name) for name in registered)
    assert {"train", "predict", "serve"} < set(GROUPS["Use"])


def test_the_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert shown(capsys, "--version") == f"orderfree {__version__}\n"


def test_scores_fit_a_hundred_columns_and_mark_the_recommended_decoder(capsys: pytest.CaptureFixture[str]) -> None:
    scores = dict.fromkeys(SCORES_SHOWN, 0.98765)
    print_scores({"joint": scores, "best:hamming_accuracy": scores}, "joint")
    header, joint, other, note = capsys.readouterr().out.splitlines()
    assert max(map(len, (header, joint, other, note))) <= 100
    assert joint.split() == ["→", "joint", *["0.9877"] * 6]
    assert other.split() == ["best:hamming_accuracy", *["0.9877"] * 6]
    assert note == "→ recommended: `orderfree predict` uses this decision by default."


@pytest.mark.parametrize("separator", [";", " / ", " and ", "|", '"', "'", "\\", "\t", "~", "#", "…"])
def test_a_separator_is_taken_as_it_is_typed(separator: str) -> None:
    settings = table_settings(None, None, separator)
    assert load_config(None, settings).data.label_separator == separator
    assert load_config(None, table_settings(None, None, "\\n")).data.label_separator == "\n"
