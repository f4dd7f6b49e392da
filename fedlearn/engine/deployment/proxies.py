"""Proxies that variables such as ``HTTPS_PROXY`` name: Flower's connections obey them, even to this machine."""

from __future__ import annotations

import os
import urllib.request

VARIABLES = ("http_proxy", "https_proxy", "all_proxy")
THIS_MACHINE = "localhost,127.0.0.1,::1"


def keep_local() -> None:
    """Exempt this machine from all proxies, for this process and the processes that it starts."""
    given = os.environ.get("no_proxy") or os.environ.get("NO_PROXY") or ""
    exempt = given if given.strip() == "*" else ",".join(filter(None, [given, THIS_MACHINE]))
    os.environ.update(no_proxy=exempt, NO_PROXY=exempt)


def remark(address: str) -> str:
    """Return a sentence that names the proxy variables through which an address is reached; empty for none."""
    host = address.rpartition(":")[0].strip("[]")
    names = [name for name, value in sorted(os.environ.items()) if name.lower() in VARIABLES and value]
    if not names or urllib.request.proxy_bypass(host):
        return ""
    return f"{address} is reached through the proxy of {', '.join(names)}: NO_PROXY={host} would go past it"
