//! Why TLS cannot be had as the settings want it: the key, the file, and what to do.

use std::io;
use std::path::{Path, PathBuf};

use rustls::pki_types::pem;
use rustls::server::VerifierBuilderError;
use rustls::{CertificateError, InconsistentKeys};
use tokio_rustls::rustls;

use crate::proxy::settings::TlsIdentity;

#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    #[error("{key} = {path:?} {error}")]
    File { key: &'static str, path: PathBuf, error: FileError },
    #[error(
        "backend.tls.mode = {mode:?} needs backend.tls.ca: the PEM file of the CA that signed the server's certificate"
    )]
    CaMissing { mode: &'static str },
    #[error(
        "Rowstamp cannot make a certificate in state.path = {path:?}: {error}; make the folder writable, or set {key} and its key"
    )]
    SelfSigned { path: PathBuf, key: &'static str, error: io::Error },
    #[error("TLS: {0}")]
    Versions(rustls::Error),
}

#[derive(Debug, thiserror::Error)]
pub enum FileError {
    #[error("cannot be read: {0}; it must be a PEM file that this process may read")]
    Pem(pem::Error),
    #[error("holds no certificate; a PEM file with BEGIN CERTIFICATE is needed")]
    NoCertificate,
    #[error(
        "holds no private key; use PEM with BEGIN PRIVATE KEY, BEGIN RSA PRIVATE KEY or BEGIN EC PRIVATE KEY"
    )]
    NoKey,
    #[error("is not the key of the certificate in {}; name the key of that certificate", .cert.display())]
    OfAnotherCertificate { cert: PathBuf },
    #[error(
        "holds no certificate that can be read; the text between BEGIN CERTIFICATE and END CERTIFICATE is damaged: copy the file again"
    )]
    Damaged,
    #[error(
        "cannot be used: {0}; the file must begin with the certificate itself, and then have the certificates that signed it"
    )]
    Unusable(rustls::Error),
    #[error("cannot verify certificates: {0}; name the CA's own certificate")]
    Verifier(VerifierBuilderError),
}

impl FileError {
    pub(super) fn of_key(error: pem::Error) -> FileError {
        match error {
            pem::Error::NoItemsFound => FileError::NoKey,
            error => FileError::Pem(error),
        }
    }

    fn of_certificate(error: rustls::Error) -> FileError {
        match error {
            rustls::Error::InvalidCertificate(CertificateError::BadEncoding) => FileError::Damaged,
            error => FileError::Unusable(error),
        }
    }
}

impl TlsError {
    pub(super) fn of_file(key: &'static str, path: &Path, error: FileError) -> TlsError {
        let error = match error {
            FileError::Unusable(error) => FileError::of_certificate(error),
            error => error,
        };
        TlsError::File { key, path: path.to_owned(), error }
    }

    /// `keys`: what the certificate and its key are called in the configuration.
    pub(super) fn of_identity(
        [cert, key]: [&'static str; 2],
        identity: &TlsIdentity,
        error: rustls::Error,
    ) -> TlsError {
        match error {
            rustls::Error::InconsistentKeys(InconsistentKeys::KeyMismatch) => {
                let error = FileError::OfAnotherCertificate { cert: identity.cert.clone() };
                TlsError::of_file(key, &identity.key, error)
            }
            error => TlsError::of_file(cert, &identity.cert, FileError::Unusable(error)),
        }
    }

    /// True if a file is there, and holds what it should not.
    pub(super) fn is_of_content(&self) -> bool {
        matches!(self, TlsError::File { error, .. } if !matches!(error, FileError::Pem(pem::Error::Io(_))))
    }
}
