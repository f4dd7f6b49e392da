from __future__ import annotations

from tests.contracts.test_grids import codes


def test_an_inline_node_is_not_begun_when_the_time_is_over(inline, ask):
    assert codes(inline.send_and_receive([ask(2, "nap", ttl=0.1), ask(3, ttl=0.1)])) == {2: 0, 3: 3}
    assert codes(inline.send_and_receive([ask(2, "nap"), ask(3)], timeout=0.1)) == {2: 0}
