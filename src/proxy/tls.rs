//! TLS on both sides, by the settings. The certificate of a proxy that was given none is `self_signed`'s.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio_rustls::rustls;
use tokio_rustls::{TlsAcceptor, TlsConnector};

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::{VerifierBuilderError, WebPkiClientVerifier};
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore, ServerConfig, SignatureScheme,
};

use super::self_signed;
use super::settings::{BackendTls, BackendTlsMode, ListenTls, ListenTlsMode, Settings, TlsIdentity};
use super::stream::{Socket, Stream};
use crate::address::Address;

/// Why TLS cannot be had as the settings want it. Each names the file and what to do.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    #[error("{key} = {path:?} cannot be read: {error}; it must be a PEM file that this process may read")]
    Pem { key: &'static str, path: PathBuf, error: pem::Error },
    #[error("{key} = {path:?} holds no certificate: a PEM file with BEGIN CERTIFICATE is needed")]
    NoCertificate { key: &'static str, path: PathBuf },
    #[error("{key} = {path:?} cannot be used: {error}")]
    Unusable { key: &'static str, path: PathBuf, error: rustls::Error },
    #[error("{key} = {path:?} cannot verify certificates: {error}")]
    Ca { key: &'static str, path: PathBuf, error: VerifierBuilderError },
    #[error(
        "backend.tls.mode = {mode:?} needs backend.tls.ca: the PEM file of the CA that signed the server's certificate"
    )]
    CaMissing { mode: &'static str },
    #[error(
        "no certificate can be made in state.path = {path:?}: {error}; make the folder writable, or set listen.tls.cert and key"
    )]
    SelfSigned { path: PathBuf, error: io::Error },
    #[error("TLS: {0}")]
    Versions(rustls::Error),
}

/// Both sides' TLS, made anew when the settings are.
#[derive(Clone)]
pub struct Tls {
    pub listen: ClientSide,
    pub backend: ServerSide,
}

/// TLS towards clients.
#[derive(Clone)]
pub enum ClientSide {
    Disabled,
    Preferred(TlsAcceptor),
    Required(TlsAcceptor),
}

/// TLS towards the server.
#[derive(Clone)]
pub enum ServerSide {
    Disabled,
    Preferred(TlsConnector),
    /// Required, and as far as the mode says, verified.
    Required(TlsConnector),
}

impl Tls {
    /// Reads the files, and makes the certificate that is not there.
    pub fn new(settings: &Settings) -> Result<Self, TlsError> {
        Ok(Tls {
            listen: client_side(&settings.listen_tls, &settings.state_path)?,
            backend: server_side(&settings.backend.tls)?,
        })
    }
}

impl ClientSide {
    pub fn acceptor(&self) -> Option<&TlsAcceptor> {
        match self {
            ClientSide::Disabled => None,
            ClientSide::Preferred(acceptor) | ClientSide::Required(acceptor) => Some(acceptor),
        }
    }

    pub fn is_required(&self) -> bool {
        matches!(self, ClientSide::Required(_))
    }
}

/// The client's side of a connection becomes TLS.
pub async fn accept(acceptor: &TlsAcceptor, socket: Socket) -> io::Result<Stream> {
    Ok(Stream::ClientTls(Box::new(acceptor.accept(socket).await?)))
}

/// The server's side of a connection becomes TLS.
pub async fn connect(connector: &TlsConnector, socket: Socket, address: &Address) -> io::Result<Stream> {
    let name = match address {
        Address::Tcp { host, .. } => ServerName::try_from(host.clone()).map_err(io::Error::other)?,
        // What the other end of a Unix socket is called, to MySQL's own clients too.
        Address::Unix(_) => ServerName::try_from("localhost").map_err(io::Error::other)?,
    };
    Ok(Stream::ServerTls(Box::new(connector.connect(name, socket).await?)))
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

fn client_side(settings: &ListenTls, state_path: &Path) -> Result<ClientSide, TlsError> {
    match settings.mode {
        ListenTlsMode::Disabled => Ok(ClientSide::Disabled),
        ListenTlsMode::Preferred => acceptor(settings, state_path).map(ClientSide::Preferred),
        ListenTlsMode::Required => acceptor(settings, state_path).map(ClientSide::Required),
    }
}

fn acceptor(settings: &ListenTls, state_path: &Path) -> Result<TlsAcceptor, TlsError> {
    let provider = provider();
    let (chain, key, path) = match &settings.identity {
        Some(TlsIdentity { cert, key }) => {
            (certificates("listen.tls.cert", cert)?, private_key("listen.tls.key", key)?, cert.clone())
        }
        None => {
            let path = self_signed::ensure(state_path)
                .map_err(|error| TlsError::SelfSigned { path: state_path.to_owned(), error })?;
            (certificates("listen.tls.cert", &path)?, private_key("listen.tls.key", &path)?, path)
        }
    };
    let builder = ServerConfig::builder_with_provider(provider.clone());
    let builder = builder.with_safe_default_protocol_versions().map_err(TlsError::Versions)?;
    let builder = match &settings.client_ca {
        None => builder.with_no_client_auth(),
        Some(ca) => {
            let roots = Arc::new(roots("listen.tls.ca", ca)?);
            let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider).build();
            builder.with_client_cert_verifier(verifier.map_err(|error| TlsError::Ca {
                key: "listen.tls.ca",
                path: ca.clone(),
                error,
            })?)
        }
    };
    let config = builder.with_single_cert(chain, key).map_err(|error| TlsError::Unusable {
        key: "listen.tls.cert",
        path,
        error,
    })?;
    Ok(TlsAcceptor::from(Arc::new(config)))
}

fn server_side(settings: &BackendTls) -> Result<ServerSide, TlsError> {
    let verifier = match settings.mode {
        BackendTlsMode::Disabled => return Ok(ServerSide::Disabled),
        BackendTlsMode::Preferred | BackendTlsMode::Required => Verifier::Nothing(provider()),
        BackendTlsMode::VerifyCa => Verifier::Chain(chain_verifier(settings, "verify_ca")?),
        BackendTlsMode::VerifyIdentity => {
            Verifier::ChainAndName(chain_verifier(settings, "verify_identity")?)
        }
    };
    let builder = ClientConfig::builder_with_provider(provider());
    let builder = builder.with_safe_default_protocol_versions().map_err(TlsError::Versions)?;
    let builder = builder.dangerous().with_custom_certificate_verifier(Arc::new(verifier));
    let config = match &settings.identity {
        None => builder.with_no_client_auth(),
        Some(TlsIdentity { cert, key }) => {
            let chain = certificates("backend.tls.cert", cert)?;
            builder
                .with_client_auth_cert(chain, private_key("backend.tls.key", key)?)
                .map_err(|error| TlsError::Unusable { key: "backend.tls.cert", path: cert.clone(), error })?
        }
    };
    let connector = TlsConnector::from(Arc::new(config));
    Ok(match settings.mode {
        BackendTlsMode::Preferred => ServerSide::Preferred(connector),
        _ => ServerSide::Required(connector),
    })
}

fn chain_verifier(settings: &BackendTls, mode: &'static str) -> Result<Arc<WebPkiServerVerifier>, TlsError> {
    let ca = settings.ca.as_ref().ok_or(TlsError::CaMissing { mode })?;
    let roots = Arc::new(roots("backend.tls.ca", ca)?);
    WebPkiServerVerifier::builder_with_provider(roots, provider()).build().map_err(|error| TlsError::Ca {
        key: "backend.tls.ca",
        path: ca.clone(),
        error,
    })
}

fn certificates(key: &'static str, path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let unreadable = |error| TlsError::Pem { key, path: path.to_owned(), error };
    let found: Result<Vec<_>, _> = CertificateDer::pem_file_iter(path).map_err(unreadable)?.collect();
    let found = found.map_err(unreadable)?;
    if found.is_empty() {
        return Err(TlsError::NoCertificate { key, path: path.to_owned() });
    }
    Ok(found)
}

fn private_key(key: &'static str, path: &Path) -> Result<PrivateKeyDer<'static>, TlsError> {
    PrivateKeyDer::from_pem_file(path).map_err(|error| TlsError::Pem { key, path: path.to_owned(), error })
}

fn roots(key: &'static str, path: &Path) -> Result<RootCertStore, TlsError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(key, path)? {
        roots.add(certificate).map_err(|error| TlsError::Unusable { key, path: path.to_owned(), error })?;
    }
    Ok(roots)
}

/// How far the server's certificate is verified, as MySQL's ssl modes go.
#[derive(Debug)]
enum Verifier {
    /// Not at all, not even whether the certificate can be parsed: servers still have X.509 version 1 ones, made by hand.
    Nothing(Arc<CryptoProvider>),
    Chain(Arc<WebPkiServerVerifier>),
    ChainAndName(Arc<WebPkiServerVerifier>),
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let verified = |by: &WebPkiServerVerifier| {
            by.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now)
        };
        match self {
            Verifier::Nothing(_) => Ok(ServerCertVerified::assertion()),
            Verifier::ChainAndName(by) => verified(by),
            // The name is looked at last: an error about it says that the chain is good.
            Verifier::Chain(by) => match verified(by) {
                Err(rustls::Error::InvalidCertificate(
                    CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
                )) => Ok(ServerCertVerified::assertion()),
                other => other,
            },
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        match self {
            Verifier::Nothing(_) => Ok(HandshakeSignatureValid::assertion()),
            Verifier::Chain(by) | Verifier::ChainAndName(by) => by.verify_tls12_signature(message, cert, dss),
        }
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        match self {
            Verifier::Nothing(_) => Ok(HandshakeSignatureValid::assertion()),
            Verifier::Chain(by) | Verifier::ChainAndName(by) => by.verify_tls13_signature(message, cert, dss),
        }
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        match self {
            Verifier::Nothing(provider) => provider.signature_verification_algorithms.supported_schemes(),
            Verifier::Chain(by) | Verifier::ChainAndName(by) => by.supported_verify_schemes(),
        }
    }
}
