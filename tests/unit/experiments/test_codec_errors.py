"""Each codec loses what theory says, and where it is biased it leads elsewhere."""

from __future__ import annotations

import pytest

from experiments.sweeps import codec_errors
from experiments.sweeps.codec_errors import CASES, VECTORS, ends, is_linear, measured, of_eden
from fedlearn.compression import CODECS
from fedlearn.compression.parse import words_in

UNBIASED = ("identity", "entropy", "fp16", "eden", "quantize", "rotate", "rand-k")
CONTRACTIVE = ("identity", "entropy", "fp16", "eden", "drop", "top-k", "sign", "ternary")


@pytest.mark.parametrize("kind", ["normal", pytest.param("log-normal", marks=pytest.mark.long)])
@pytest.mark.parametrize("chain", CASES)
def test_error_is_within_three_percent_of_theory(chain, kind):
    found = measured(chain, VECTORS[kind], size=1 << 16 if "quantize" in chain else 1 << 17, draws=3)
    assert abs(found.off) < 0.03
    first = chain.partition(":")[0].partition(",")[0]
    if first in UNBIASED:
        assert found.along == pytest.approx(1, abs=0.1)
    else:
        assert found.along < 0.9
    if first in CONTRACTIVE:
        assert found.error < 1


def test_every_stage_has_a_theory():
    named = {word.partition(":")[0] for chain in CASES for word in words_in(chain)}
    assert named == {*CODECS} - {"residual"}


def test_errors_of_eden_are_those_of_the_paper():
    assert [round(of_eden(bits), 5) for bits in (1, 2, 3, 4)] == pytest.approx(
        [0.57080, 0.13312, 0.03578, 0.00959], abs=1e-5
    )


def test_codecs_that_send_the_same_entries_as_they_are_go_with_sums():
    assert [chain for chain in CASES if is_linear(chain)] == ["identity", "entropy", "drop:0.1", "rand-k:0.1"]


def test_a_residual_cycles_about_the_optimum_that_ef21_comes_to():
    assert {kind: {tuple(round(x, 5) for x in point) for point in ends(kind)} for kind in ("plain", "ef21")} == {
        kind: {(0.25, 0.25)} for kind in ("plain", "ef21")
    }
    assert max(ends("top-1"))[0] == pytest.approx(0.25974, abs=1e-5)
    assert sorted({round(x, 4) for x, _ in ends("residual")}) == [0.2125, 0.2875]


def test_the_command_prints_both(capsys, tmp_path, monkeypatch):
    monkeypatch.setattr(codec_errors, "CASES", {name: CASES[name] for name in ("drop:0.1", "eden:1")})
    codec_errors.main(["--size", "4096", "--draws", "1", "--out", str(tmp_path)])
    said = capsys.readouterr().out
    assert "ef21      (0.25, 0.25)" in said
    assert (tmp_path / "errors.md").read_text().count("\n") >= 4
