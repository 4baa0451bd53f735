"""Tables fit the terminal, and text from outside cannot control it."""

from __future__ import annotations

import re

import pytest
from rich.text import Text

from cronflow.cli.terminal import formatting, output
from cronflow.cli.terminal.tables import SPARE, BlockTable, Column, fit, lines, table
from cronflow.domain.run import Outcome, RunState

COLUMNS = [Column("KEPT"), Column("SHORT", least=5), Column("MINOR", drop=2), Column("SPARE", drop=SPARE)]


@pytest.mark.parametrize(
    ("width", "expected"),
    [
        (46, {0: 10, 1: 10, 2: 10, 3: 10}),
        (45, {0: 10, 1: 10, 2: 10}),
        (30, {0: 10, 1: 6, 2: 10}),
        (29, {0: 10, 1: 5, 2: 10}),
        (28, {0: 10, 1: 10}),
        (20, {0: 10, 1: 8}),
        (8, {0: 10, 1: 5}),
    ],
)
def test_a_narrow_table_first_shortens_then_drops_columns_and_never_cuts_names(
    width: int, expected: dict[int, int]
) -> None:
    assert fit(COLUMNS, [10, 10, 10, 10], [0, 1, 2, 3], width) == expected


def test_a_column_without_content_is_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    table([Column("A"), Column("EMPTY", drop=1), Column("B", drop=1)], [["1", "", "2"], ["3", " ", ""]])
    assert capsys.readouterr().out == "A  B\n1  2\n3\n"


def test_numbers_are_right_aligned_and_wide_characters_count_twice(capsys: pytest.CaptureFixture[str]) -> None:
    table([Column("名前"), Column("N", align="right")], [["日本", "10"], ["x", "5"]])
    assert capsys.readouterr().out == "名前   N\n日本  10\nx      5\n"


def test_every_state_and_outcome_has_a_glyph_and_its_word() -> None:
    for state in RunState:
        assert re.fullmatch(rf"\S {state.value}", formatting.run_state(state).plain)
    for how in Outcome:
        assert re.fullmatch(rf"\S {how.value}", formatting.outcome(how).plain)
    assert len({look.glyph for look in formatting.RUNS.values()}) == len(RunState)


def test_text_from_outside_cannot_control_the_terminal() -> None:
    text = "\x1b[31mred\x1b[0m \x1b]0;title\x07 \x1b[2J back\rover \x9b1m \u202eflip"
    cleaned = formatting.clean(text)
    assert cleaned.startswith("red ␛]0;title␇ ␛[2J back␍over \\u009b1m \\u202eflip")
    assert formatting.one_line(" a\n\tb ") == "a b"


def test_piped_output_has_no_colours(capsys: pytest.CaptureFixture[str]) -> None:
    output.console().print(formatting.run_state(RunState.FAILED))
    output.warn("look")
    captured = capsys.readouterr()
    assert captured.out == "✗ failed\n"
    assert captured.err == "! look\n"


@pytest.mark.parametrize(("term", "code"), [("xterm-256color", "38;5;166"), ("xterm", "31")])
def test_colours_match_what_the_terminal_supports(
    term: str, code: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", term)
    monkeypatch.delenv("COLORTERM", raising=False)
    output.console().print(Text.assemble(formatting.run_state(RunState.FAILED), ("!", f"bold {formatting.RED}")))
    assert capsys.readouterr().out == f"\x1b[{code}m✗ failed\x1b[0m\x1b[1;{code}m!\x1b[0m\n"


def test_no_color_is_honoured(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("NO_COLOR", "1")
    output.console().print(formatting.run_state(RunState.FAILED))
    assert capsys.readouterr().out == "✗ failed\n"


@pytest.mark.parametrize("width", [200, 24, 17])
def test_a_printed_table_has_the_lines_of_a_drawn_one(
    width: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    columns = [Column("A", least=4), Column("N", align="right", style="dim"), Column("B", drop=1)]
    rows: list[list[str | Text]] = [
        ["short", "1", Text("tail ", style="red")],
        [Text.assemble("two ", ("parts", "bold")), "22", ""],
        ["\u6f22\u5b57\u6f22\u5b57\u6f22", "333", "b\x07ell"],
    ]
    monkeypatch.setenv("COLUMNS", str(width))
    table(columns, rows)
    drawn = [line.plain for line in lines(columns, rows, width)]
    assert capsys.readouterr().out == "".join(f"{line}\n" for line in drawn)


def test_a_table_in_blocks_grows_and_repeats_its_heading_only_for_other_columns(
    capsys: pytest.CaptureFixture[str],
) -> None:
    blocks = BlockTable([Column("A"), Column("B", drop=1), Column("C", drop=1)])
    for rows in ([["1", "", "x"]], [["long", "", "y"]], [["2", "b", "z"]]):
        blocks.print(rows)
    assert capsys.readouterr().out == "A  C\n1  x\nlong  y\nA     B  C\n2     b  z\n"
