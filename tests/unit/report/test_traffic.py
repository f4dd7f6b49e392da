"""What a run has sent both ways, from its folder."""

from __future__ import annotations

import pytest

from fedlearn.report.comparing import compared
from fedlearn.report.page.sections import sections_of
from fedlearn.report.run_tables import runs_table
from fedlearn.report.run_traffic import bits_down, bits_up, bytes_total, measured_in, seconds_on_devices

# conftest.py: 3 rounds, each with 2 nodes, 2000 bytes down and 500 up
KNOWN = {"parameters": 100}


def test_bits_are_those_of_one_message_for_each_parameter(stored):
    run = stored(started=KNOWN)
    assert bytes_total(run) == 3 * (2000 + 500)
    assert bits_up(run) == 8 * 500 / 2 / 100
    assert bits_down(run) == 8 * 2000 / 2 / 100


@pytest.mark.parametrize("started", [{}, {"parameters": 0}, {"parameters": -5}, {"parameters": "many"}])
def test_a_state_without_a_number_of_parameters_has_no_bits(stored, started):
    run = stored(started=started)
    assert bits_up(run) is None
    assert bits_down(run) is None
    assert [column.name for column, _ in measured_in([run])] == ["bytes_total"]


def test_every_table_of_runs_has_the_total(stored):
    table = runs_table([stored("a", started=KNOWN), stored("b")])
    names = [column.name for column in table.columns]
    place = names.index("bytes_total")
    assert [row[place] for row in table.rows] == [7500, 7500]
    assert [row[names.index("bits_up")] for row in table.rows] == [20, None]
    assert "virtual_seconds" not in names


def test_seconds_on_devices_stand_beside_the_bytes(stored, rows_on_devices):
    run = stored(rows=rows_on_devices, started=KNOWN, settings={"devices.name": "phones"})
    assert seconds_on_devices(run) == 90.0
    page = "".join(sections_of([run], title="x", link=lambda run, name: name).values())
    assert "on devices" in page
    assert "phones" in page


@pytest.fixture
def rows_on_devices():
    from tests.unit.report.conftest import rows_of

    return rows_of([0.2, 0.4], virtual_seconds=90.0)


def test_page_says_both_ways_and_bits(stored):
    page = "".join(sections_of([stored(started=KNOWN)], title="x", link=lambda run, name: name).values())
    assert "7.5 kB both ways" in page
    assert "20 bits a parameter up, 80 down" in page


def test_two_runs_are_compared_by_the_total(make_run, capsys):
    from rich.console import Console

    Console(width=200).print(compared(make_run("a", started=KNOWN), make_run("b", started=KNOWN)))
    said = capsys.readouterr().out
    assert "both ways" in said
    assert "bits down" in said
