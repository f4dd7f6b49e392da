"""Proxies of the environment: never between programs of one machine, and named where they are in the way."""

from __future__ import annotations

import os

import pytest

from fedlearn.engine.deployment import proxies


@pytest.fixture(autouse=True)
def environment(monkeypatch):
    for name in list(os.environ):
        if "proxy" in name.lower():
            monkeypatch.delenv(name)
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.setenv(name, "")
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy.example.org:3128")


@pytest.mark.parametrize("given", ["", "fl.example.org"])
@pytest.mark.parametrize("name", ["no_proxy", "NO_PROXY"])
def test_what_stays_on_this_machine_goes_through_no_proxy(monkeypatch, name, given):
    from httpx._utils import get_environment_proxies

    monkeypatch.setenv(name, given)
    assert proxies.remark("127.0.0.1:8000")
    proxies.keep_local()
    assert not any(map(proxies.remark, ["127.0.0.1:8000", "localhost:8443", "[::1]:8443"]))
    assert bool(proxies.remark("fl.example.org:8443")) is not bool(given)
    routes = get_environment_proxies()  # as Flower's connections read it
    assert routes["https://"] and {"all://127.0.0.1", "all://localhost", "all://[::1]"} <= set(routes)


def test_an_address_behind_a_proxy_names_the_variable_and_the_way_past_it(monkeypatch):
    line = "fl.example.org:8443 is reached through the proxy of HTTPS_PROXY: NO_PROXY=fl.example.org would go past it"
    assert proxies.remark("fl.example.org:8443") == line
    monkeypatch.delenv("HTTPS_PROXY")
    assert proxies.remark("fl.example.org:8443") == ""


def test_where_all_addresses_are_exempt_they_stay_so(monkeypatch):
    monkeypatch.setenv("NO_PROXY", "*")
    monkeypatch.delenv("no_proxy")
    proxies.keep_local()
    assert os.environ["no_proxy"] == "*" and not proxies.remark("fl.example.org:8443")
