"""Looks for secrets in what proxies and etcd have written, and in what they say."""

import base64
import hashlib
import os
import re
from urllib.parse import quote

from fleet import get, rows


def base64_forms(secret):
    """As part of any longer text: what stands before it has 0, 1 or 2 bytes more than threes. The ends hold bits of the neighbours."""
    for before in range(3):
        text = base64.b64encode(b"\0" * before + secret).rstrip(b"=")
        inner = text[(before * 8 + 5) // 6 : -1]
        yield from (inner, inner.replace(b"+", b"-").replace(b"/", b"_"))


def forms(secret, is_token):
    secret = secret.encode()
    found = {secret, quote(secret).encode(), secret.hex().encode(), secret.hex().upper().encode(), *base64_forms(secret)}
    # As Rust prints bytes.
    found.add(", ".join(str(byte) for byte in secret).encode())
    if is_token:
        digits = secret.removeprefix(b"rst_")
        found |= {digits, *base64_forms(bytes.fromhex(digits.decode()))}
    else:
        # A token is kept as its SHA-256. That of a password is as good as the password.
        digest = hashlib.sha256(secret)
        found |= {digest.hexdigest().encode(), *base64_forms(digest.digest())}
    return found


def files(folder):
    for parent, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(parent, name)
            # What was given to the proxy.
            if name != "rowstamp.toml" and os.path.isfile(path):
                with open(path, "rb") as file:
                    yield os.path.relpath(path, os.path.dirname(folder)), file.read().rstrip(b"\0")  # etcd makes its log longer than it is.


def said(proxy):
    for path in ("/", "/metrics", "/status.json", "/readyz", "/healthz"):
        yield path, get(proxy.http_port, path)
    for words in (("status",), ("status", "--json"), ("store", "export", "-"), ("store", "list")):
        yield " ".join(words), proxy.run(*words)
    with proxy.console() as console:
        commands = {row[0] for row in rows(console, "SHOW COMMANDS")}
        shows = sorted({re.sub(r" *\[.*", "", form) for form in commands if form.startswith("SHOW ")})
        for show in (*shows, "HELP CONTENTS"):
            yield show, repr(rows(console, show)).encode()


def places(proxies, etcd):
    """The name of each, and its bytes."""
    for proxy in proxies:
        yield from files(proxy.folder)
        for what, text in said(proxy):
            yield f"proxy-{proxy.nth} {what}", text
    # Its files have all that was ever written, the dump what stands.
    for member in etcd.members:
        yield from files(member.folder)
    yield "etcdctl get", etcd.ctl("get", "--prefix", "")
