from __future__ import annotations

import pytest

from fedlearn.compression import CODECS, load_codec
from fedlearn.compression.chain import Chain
from fedlearn.compression.drop import Drop
from fedlearn.compression.eden import Eden
from fedlearn.compression.entropy import Entropy
from fedlearn.compression.identity import Identity
from fedlearn.compression.parse import SHORT
from fedlearn.compression.quantize import Quantize
from fedlearn.compression.rotate import Rotate
from fedlearn.compression.sign import Sign
from fedlearn.compression.top_k import TopK
from fedlearn.config.tables.reports import CompressionSettings
from fedlearn.core.errors import SettingError


def codec_of(chain, **settings):
    return load_codec(CompressionSettings(codec=chain, **settings))


class Louder(Quantize):
    """Somebody else's stage."""


def kinds_of(chain):
    codec = codec_of(chain)
    stages = [codec.sparsifier, codec.transform, codec.quantizer, codec.entropy]
    return [type(stage) for stage in stages if stage is not None], codec.keeps_residual


@pytest.mark.parametrize(
    ("chain", "kinds", "keeps_residual"),
    [
        ("drop:0.1,rotate,quantize:4", [Drop, Rotate, Quantize], False),
        ("drop:0.1, quantize:4", [Drop, Quantize], False),
        ("residual,top-k:0.01,quantize:4,entropy", [TopK, Quantize, Entropy], True),
        ("residual,ternary:0.01", [TopK, Sign], True),
        ("drop,eden", [Drop, Eden], False),
        ("entropy:9", [Entropy], False),
    ],
)
def test_a_chain_has_its_stages(chain, kinds, keeps_residual):
    assert kinds_of(chain) == (kinds, keeps_residual)


def test_a_name_alone_takes_what_the_settings_say():
    assert codec_of("drop", keep_ratio=0.3).sparsifier.keep_ratio == 0.3
    assert codec_of("drop:0.2", keep_ratio=0.3).sparsifier.keep_ratio == 0.2
    assert codec_of("ternary", keep_ratio=0.3).sparsifier.keep_ratio == 0.3
    assert codec_of("drop:0.2", granularity="tensor").sparsifier.granularity == "tensor"
    assert codec_of("quantize").quantizer.bits == 8
    assert isinstance(codec_of("identity"), Identity)


def test_stages_and_codecs_of_others_are_taken_by_reference():
    chain = codec_of("drop,tests.unit.compression.test_parse:Louder:3")
    assert isinstance(chain, Chain)
    assert (type(chain.quantizer).__name__, chain.quantizer.bits) == ("Louder", 3)
    assert isinstance(codec_of("fedlearn.compression.identity:Identity"), Identity)


CHOICES = ", ".join([*CODECS, *SHORT])


@pytest.mark.parametrize(
    ("chain", "said"),
    [
        ("dorp", f"choose one of {CHOICES}, or give module:Class"),
        ("drop,squeeze", f"stage 'squeeze': choose one of {CHOICES}, or give module:Class"),
        ("drop,", "stage '': choose one of"),
        ("drop:2", "stage 'drop:2': the share of entries that is sent must be above 0 and at most 1, as in drop:0.1"),
        ("top-k:nan", "stage 'top-k:nan': the share"),
        ("drop:x,fp16", "stage 'drop:x': the share"),
        ("quantize:0", "stage 'quantize:0': the number of bits must be a whole number from 1 to 8"),
        ("quantize:9", "from 1 to 8"),
        ("quantize:2.5", "from 1 to 8"),
        ("eden:5", "stage 'eden:5': the number of bits must be a whole number from 1 to 4"),
        ("sign:1", "stage 'sign:1': it takes no argument: write its name alone"),
        ("entropy:23", "stage 'entropy:23': the level must be a whole number from 1 to 22"),
        ("quantize:4,drop:0.1", "'drop:0.1' is a sparsifier, 'quantize:4' a quantizer: write drop:0.1,quantize:4"),
        ("drop,residual,fp16", "'residual' is a residual, 'drop' a sparsifier: write residual,drop"),
        ("drop,top-k", "'drop' and 'top-k' are both a sparsifier: take one of them"),
        ("ternary,quantize", "'sign' and 'quantize' are both a quantizer: take one of them"),
        ("rotate", "'rotate' alone saves nothing: write rotate,quantize:4"),
        ("rotate,eden", "'eden' rotates by itself: leave 'rotate' out"),
        ("residual", "'residual' keeps what other stages lose: write residual,top-k:0.01"),
        ("residual,entropy", "'residual' keeps what other stages lose"),
        ("residual,drop:0.1", "a residual does not go with 'drop:0.1'"),
        ("residual,rand-k:0.1", "a residual does not go with 'rand-k:0.1'"),
        ("identity,fp16", "stage 'identity' is a codec by itself: use it alone"),
        ("no.such:Thing", "there is no module no.such here or installed"),
    ],
)
def test_what_is_wrong_is_said_in_one_line_that_names_the_setting(chain, said):
    with pytest.raises(SettingError) as error:
        codec_of(chain)
    assert said in str(error.value)
    assert str(error.value).startswith("compression.codec = ")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("chain", "stage"),
    [
        ("top-k:0.1", "top-k:0.1"), ("rand-k", "rand-k"), ("drop,sign", "sign"), ("residual,eden", "residual"),
        ("drop,rotate,quantize,entropy", ""), ("eden", ""), ("fp16", ""), ("identity", ""),
    ],
)  # fmt: skip
def test_which_stage_needs_the_change_is_known(chain, stage):
    assert codec_of(chain).needs_change == stage
