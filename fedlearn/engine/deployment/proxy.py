"""The proxy: nginx, the one way in from outside. It passes the calls of nodes, and none that control runs.

    python -m fedlearn.engine.deployment.proxy --superlink 127.0.0.1:8000 --keys keys --folder state/nginx

It ends TLS, since a path can only be filtered where it can be read, and checks the SuperLink's certificate behind it.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from pathlib import Path
from string import Template

from fedlearn.engine.processes import die_with

CONFIG = Template("""\
daemon off;
pid $folder/nginx.pid;
worker_processes 1;
events { worker_connections 4096; }
http {
  access_log off;
  client_body_temp_path $folder/body;
  proxy_temp_path $folder/proxy;
  fastcgi_temp_path $folder/fastcgi;
  uwsgi_temp_path $folder/uwsgi;
  scgi_temp_path $folder/scgi;
  client_max_body_size 1m;
  client_header_timeout 10s;
  client_body_timeout 15s;
  reset_timedout_connection on;
  limit_conn_zone $$binary_remote_addr zone=peers:1m;
  limit_req_zone $$binary_remote_addr zone=requests:1m rate=500r/s;
  proxy_request_buffering off;
  proxy_buffering off;
  proxy_http_version 1.1;
  proxy_set_header Connection "";
  proxy_set_header Host $$host;
  proxy_read_timeout 300s;
  proxy_ssl_trusted_certificate "$keys/public/ca.crt";
  proxy_ssl_verify on;
  proxy_ssl_name superlink;
  ssl_certificate "$keys/server/server.crt";
  ssl_certificate_key "$keys/server/server.key";
  ssl_protocols TLSv1.2 TLSv1.3;
  upstream superlink { server $superlink; keepalive 64; }
  server { # nodes
    listen $listen ssl;
    limit_conn peers 128;
    limit_req zone=requests burst=1000 nodelay;
    # Paths as they are, so that the proxy and the SuperLink read the same: no dots, no escapes, no query.
    if ($$request_uri !~ "^/v1/fleet/[a-z-]{1,40}$$") { return 403; }
    if ($$http_flwr_signature = "") { return 401; } # whose it is, the SuperLink's door asks before it reads on
    location = /v1/fleet/push-object { # a part of a report; Flower cuts arrays, of any length, into 5 MiB
      client_max_body_size 6m;
      proxy_pass https://superlink;
    }
    location /v1/fleet/ { proxy_pass https://superlink; }
    location / { return 403; }
  }$more
}
""")
RUNTIME = Template("""
  server { # the server app
    listen $runtime ssl;
    client_max_body_size 2g;
    if ($$request_uri !~ "^/v1/runtime/[a-z-]{1,40}$$") { return 403; }
    location /v1/runtime/ { proxy_pass https://superlink; }
    location / { return 403; }
  }""")
HEALTH = Template("""
  server { # the health check
    listen $health;
    location = /health { return 200; }
    location / { return 403; }
  }""")


def config(*, keys: Path, superlink: str, listen: str, folder: Path, runtime: str = "", health: str = "") -> str:
    """Return nginx's configuration.

    Parameters
    ----------
    folder
        Where nginx writes what it needs while it runs.
    runtime
        Address at which the server app reaches the SuperLink, if it does so through the proxy.
    health
        Address of ``/health``, which answers 200.
    """
    more = RUNTIME.substitute(runtime=runtime) if runtime else ""
    more += HEALTH.substitute(health=health) if health else ""
    return CONFIG.substitute(keys=keys.resolve(), superlink=superlink, listen=listen, folder=folder, more=more)


def nginx() -> str | None:
    """Return the path of nginx, which may lie where only root looks for programs; None where there is none."""
    return shutil.which("nginx", path=f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/usr/local/sbin")


def main(arguments: list[str] | None = None) -> None:
    """Write the configuration and become nginx."""
    parser = argparse.ArgumentParser(prog="python -m fedlearn.engine.deployment.proxy")
    for name, default in (("superlink", None), ("listen", "0.0.0.0:8443"), ("runtime", ""), ("health", "")):
        parser.add_argument(f"--{name}", default=default, required=default is None, metavar="HOST:PORT")
    for name in ("keys", "folder"):
        parser.add_argument(f"--{name}", type=Path, required=True, metavar="FOLDER")
    parser.add_argument("--parent-pid", type=int, metavar="PID")
    options = parser.parse_args(arguments)
    die_with(options.parent_pid)
    if (program := nginx()) is None:
        sys.exit("error: nginx is not installed")
    folder = options.folder.resolve()
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    given = {name: getattr(options, name) for name in ("superlink", "listen", "runtime", "health", "keys")}
    (folder / "nginx.conf").write_text(config(folder=folder, **given), encoding="utf-8")
    os.execv(program, [program, "-e", "stderr", "-c", str(folder / "nginx.conf")])


if __name__ == "__main__":
    main()
