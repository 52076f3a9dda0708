//! The contents of TLS files.

use std::fs;

use super::{PLAIN, RULES, certificate, check_line, folder, found};

/// Files of TLS that are there, and would stop `serve`.
#[test]
fn files_of_tls() {
    let folder = folder("", RULES);
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
    let pem = certificate();
    write("other", &pem);
    write("garbage", "-----BEGIN CERTIFICATE-----\nnot base64!\n-----END CERTIFICATE-----\n");
    write("hollow", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n");
    write("text", "no PEM at all");
    let no_certificate = "holds no certificate; a PEM file with BEGIN CERTIFICATE is needed";
    let damaged = "holds no certificate that can be read; the text between BEGIN CERTIFICATE and END CERTIFICATE is damaged: \
                   copy the file again";
    let other = "other is not the key of the certificate in pem; name the key of that certificate";
    let no_key = "text holds no private key; use PEM with BEGIN PRIVATE KEY, BEGIN RSA PRIVATE KEY or BEGIN EC PRIVATE KEY";
    for (keys, key, expect) in [
        ("listen.tls = { cert = 'pem', key = 'other' }", "listen.tls.key", other),
        ("listen.tls = { cert = 'pem', key = 'text' }", "listen.tls.key", no_key),
        ("listen.tls = { cert = 'text', key = 'pem' }", "listen.tls.cert", &format!("text {no_certificate}")),
        ("listen.tls = { cert = 'hollow', key = 'pem' }", "listen.tls.cert", &format!("hollow {damaged}")),
        ("listen.tls.ca = 'text'", "listen.tls.ca", &format!("text {no_certificate}")),
        ("backend.tls = { cert = 'pem', key = 'other' }", "backend.tls.key", other),
        (
            "backend.tls = { mode = 'verify_ca', ca = 'text' }",
            "backend.tls.ca",
            &format!("text {no_certificate}"),
        ),
        (
            "store = { kind = 'etcd', endpoints = ['a:1'], tls = { ca = 'hollow' } }",
            "store.tls.ca",
            &format!("hollow {damaged}"),
        ),
        (
            "store = { kind = 'etcd', endpoints = ['a:1'], tls = { ca = 'pem', cert = 'pem', key = 'other' } }",
            "store.tls.key",
            other,
        ),
    ] {
        write("rowstamp.toml", &format!("{PLAIN}{keys}"));
        let expect = format!("error: rowstamp.toml:3: {key}: {expect}");
        assert_eq!(found(folder.path()), [expect], "{keys}");
    }
    write("rowstamp.toml", &format!("{PLAIN}listen.tls = {{ cert = 'garbage', key = 'pem' }}"));
    let found = found(folder.path()).join("\n");
    assert!(
        found.contains("listen.tls.cert: garbage cannot be read: ") && found.contains("; it must be a PEM"),
        "{found}"
    );
    // No file is read for a side without TLS.
    check_line("listen.tls = { mode = 'disabled', cert = 'password', key = 'password' }", &[]);
}
