//! TLS on both sides, by the settings. The certificate of a proxy that was given none is
//! `self_signed`'s.

mod error;

use std::io;
use std::path::Path;
use std::sync::{Arc, LazyLock};

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::{
    CertificateError, ClientConfig, ConfigBuilder, DigitallySignedStruct, RootCertStore, ServerConfig,
    SignatureScheme, WantsVerifier,
};
use tokio_rustls::{TlsAcceptor, TlsConnector, rustls};

pub use self::error::{FileError, TlsError};
use crate::address::Address;
use crate::mysql::capabilities::Capabilities;
use crate::mysql::handshake::Greeting;
use crate::proxy::connect::self_signed;
use crate::proxy::connect::stream::{Socket, Stream};
use crate::proxy::settings::{
    BackendTls, BackendTlsMode, ListenTls, ListenTlsMode, Settings, TlsDoor, TlsIdentity,
};

/// Both sides' TLS, made again when the settings are.
#[derive(Clone)]
pub struct Tls {
    pub listen: ClientSide,
    pub backend: ServerSide,
}

#[derive(Clone, Default)]
pub struct ClientSide {
    /// `None`: it is not offered.
    pub acceptor: Option<TlsAcceptor>,
    /// A client without TLS is refused. Never true without an acceptor.
    pub is_required: bool,
}

#[derive(Clone)]
pub enum ServerSide {
    Disabled,
    Preferred(TlsConnector),
    /// TLS where the session's client uses it.
    AsClient(TlsConnector),
    /// Required, and as far as the mode says, verified.
    Required(TlsConnector),
}

impl ServerSide {
    /// True if a client may be offered TLS in front of a server that greets so.
    pub fn lets_offer(&self, greeting: &Greeting) -> bool {
        !matches!(self, ServerSide::AsClient(_)) || greeting.capabilities.contains(Capabilities::SSL)
    }
}

impl Tls {
    /// Reads the files, and makes the certificate that is not there.
    pub fn new(settings: &Settings) -> Result<Self, TlsError> {
        Ok(Tls {
            listen: ClientSide::new(&settings.listen_tls, &settings.state_path)?,
            backend: server_side(&settings.backend.tls)?,
        })
    }
}

impl ClientSide {
    /// Reads the files, and makes the certificate in the state folder where none is named.
    pub fn new(settings: &ListenTls, state_path: &Path) -> Result<Self, TlsError> {
        let is_offered = settings.mode != ListenTlsMode::Disabled;
        let acceptor = is_offered.then(|| acceptor(settings, state_path)).transpose()?;
        Ok(ClientSide { acceptor, is_required: settings.mode == ListenTlsMode::Required })
    }
}

pub async fn accept(acceptor: &TlsAcceptor, socket: Socket) -> io::Result<Stream> {
    Ok(Stream::ClientTls(Box::new(acceptor.accept(socket).await?)))
}

pub async fn connect(connector: &TlsConnector, socket: Socket, address: &Address) -> io::Result<Stream> {
    let name = match address {
        Address::Tcp { host, .. } => ServerName::try_from(host.clone()).map_err(io::Error::other)?,
        // MySQL's own clients, too, call the other end of a Unix socket so.
        Address::Unix(_) => ServerName::try_from("localhost").map_err(io::Error::other)?,
    };
    Ok(Stream::ServerTls(Box::new(connector.connect(name, socket).await?)))
}

fn provider() -> Arc<CryptoProvider> {
    static PROVIDER: LazyLock<Arc<CryptoProvider>> = LazyLock::new(|| Arc::new(ring::default_provider()));
    Arc::clone(&PROVIDER)
}

fn acceptor(settings: &ListenTls, state_path: &Path) -> Result<TlsAcceptor, TlsError> {
    let identity = match &settings.identity {
        Some(identity) => identity.clone(),
        None => self_signed::ensure(state_path)
            .map(|path| TlsIdentity { cert: path.clone(), key: path })
            .map_err(|error| {
                let [_, key, ..] = settings.door.names();
                TlsError::SelfSigned { path: state_path.to_owned(), key, error }
            })?,
    };
    acceptor_of(settings.door, &identity, settings.client_ca.as_deref())
}

fn acceptor_of(
    door: TlsDoor,
    identity: &TlsIdentity,
    client_ca: Option<&Path>,
) -> Result<TlsAcceptor, TlsError> {
    let [_, cert_key, key_key, ca_key] = door.names();
    let (chain, key) = (certificates(cert_key, &identity.cert)?, private_key(key_key, &identity.key)?);
    let builder = ServerConfig::builder_with_provider(provider());
    let builder = builder.with_safe_default_protocol_versions().map_err(TlsError::Versions)?;
    let builder = match client_ca {
        None => builder.with_no_client_auth(),
        Some(ca) => builder.with_client_cert_verifier(client_verifier(ca_key, ca)?),
    };
    let config = builder.with_single_cert(chain, key);
    let config = config.map_err(|error| TlsError::of_identity([cert_key, key_key], identity, error))?;
    Ok(TlsAcceptor::from(Arc::new(config)))
}

fn client_verifier(
    key: &'static str,
    ca: &Path,
) -> Result<Arc<dyn rustls::server::danger::ClientCertVerifier>, TlsError> {
    let roots = Arc::new(roots(key, ca)?);
    let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider()).build();
    verifier.map_err(|error| TlsError::of_file(key, ca, FileError::Verifier(error)))
}

fn server_side(settings: &BackendTls) -> Result<ServerSide, TlsError> {
    let chain = match settings.mode {
        BackendTlsMode::Disabled => return Ok(ServerSide::Disabled),
        BackendTlsMode::Preferred | BackendTlsMode::AsClient | BackendTlsMode::Required => None,
        BackendTlsMode::VerifyCa => Some(chain_verifier(settings, "verify_ca")?),
        BackendTlsMode::VerifyIdentity => Some(chain_verifier(settings, "verify_identity")?),
    };
    let verifier = CertificateVerifier { chain, with_name: settings.mode == BackendTlsMode::VerifyIdentity };
    let keys = ["backend.tls.cert", "backend.tls.key"];
    let config = client_config(Arc::new(verifier), keys, settings.identity.as_ref())?;
    let connector = TlsConnector::from(Arc::new(config));
    Ok(match settings.mode {
        BackendTlsMode::Preferred => ServerSide::Preferred(connector),
        BackendTlsMode::AsClient => ServerSide::AsClient(connector),
        _ => ServerSide::Required(connector),
    })
}

/// `keys`: what the identity's certificate and its key are called in the configuration.
fn client_config(
    verifier: Arc<dyn ServerCertVerifier>,
    keys: [&'static str; 2],
    identity: Option<&TlsIdentity>,
) -> Result<ClientConfig, TlsError> {
    let builder: ConfigBuilder<ClientConfig, WantsVerifier> = ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .map_err(TlsError::Versions)?;
    let builder = builder.dangerous().with_custom_certificate_verifier(verifier);
    let Some(identity) = identity else { return Ok(builder.with_no_client_auth()) };
    let (chain, key) = (certificates(keys[0], &identity.cert)?, private_key(keys[1], &identity.key)?);
    let config = builder.with_client_auth_cert(chain, key);
    config.map_err(|error| TlsError::of_identity(keys, identity, error))
}

/// The faults in the files of the settings. Nothing is made, and a file that cannot be read is the caller's to tell.
pub fn faults(settings: &Settings) -> Vec<TlsError> {
    let mut found = faults_of_door(&settings.listen_tls);
    found.extend(server_side(&settings.backend.tls).err());
    found.retain(TlsError::is_of_content);
    found
}

/// The faults in the files of one door, by the rules of [`faults`].
pub fn faults_of_door(tls: &ListenTls) -> Vec<TlsError> {
    let mut found = Vec::new();
    if tls.mode != ListenTlsMode::Disabled {
        let (identity, ca) = (&tls.identity, tls.client_ca.as_deref());
        let [.., ca_key] = tls.door.names();
        found.extend(identity.as_ref().and_then(|identity| acceptor_of(tls.door, identity, None).err()));
        found.extend(ca.and_then(|ca| client_verifier(ca_key, ca).err()));
    }
    found.retain(TlsError::is_of_content);
    found
}

/// The fault in the certificate that was made on first start, where it is in use and there.
pub fn self_made_fault(listen: &ListenTls, state_path: &Path) -> Option<TlsError> {
    let path = self_signed::path(state_path);
    if listen.mode == ListenTlsMode::Disabled || listen.identity.is_some() || !path.exists() {
        return None;
    }
    acceptor_of(listen.door, &TlsIdentity { cert: path.clone(), key: path }, None).err()
}

/// The faults in the files with which another library speaks TLS. `keys`: of the CA, the certificate and its key.
pub fn client_faults(keys: [&'static str; 3], ca: &Path, identity: Option<&TlsIdentity>) -> Vec<TlsError> {
    let [ca_key, cert_key, key_key] = keys;
    let ca_fault = roots(ca_key, ca).err();
    let verifier = Arc::new(CertificateVerifier { chain: None, with_name: false });
    let mut found: Vec<_> =
        ca_fault.into_iter().chain(client_config(verifier, [cert_key, key_key], identity).err()).collect();
    found.retain(TlsError::is_of_content);
    found
}

fn chain_verifier(settings: &BackendTls, mode: &'static str) -> Result<Arc<WebPkiServerVerifier>, TlsError> {
    let ca = settings.ca.as_ref().ok_or(TlsError::CaMissing { mode })?;
    let roots = Arc::new(roots("backend.tls.ca", ca)?);
    WebPkiServerVerifier::builder_with_provider(roots, provider())
        .build()
        .map_err(|error| TlsError::of_file("backend.tls.ca", ca, FileError::Verifier(error)))
}

fn certificates(key: &'static str, path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let unreadable = |error| TlsError::of_file(key, path, FileError::Pem(error));
    let found: Result<Vec<_>, _> = CertificateDer::pem_file_iter(path).map_err(unreadable)?.collect();
    let found = found.map_err(unreadable)?;
    if found.is_empty() {
        return Err(TlsError::of_file(key, path, FileError::NoCertificate));
    }
    Ok(found)
}

fn private_key(key: &'static str, path: &Path) -> Result<PrivateKeyDer<'static>, TlsError> {
    PrivateKeyDer::from_pem_file(path).map_err(|error| TlsError::of_file(key, path, FileError::of_key(error)))
}

fn roots(key: &'static str, path: &Path) -> Result<RootCertStore, TlsError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(key, path)? {
        let added = roots.add(certificate);
        added.map_err(|error| TlsError::of_file(key, path, FileError::Unusable(error)))?;
    }
    Ok(roots)
}

/// The verification of the server's certificate, as far as MySQL's ssl modes go.
#[derive(Debug)]
struct CertificateVerifier {
    /// `None`: not at all, not even whether the certificate can be parsed: servers still have X.509
    /// version 1 ones, made by hand.
    chain: Option<Arc<WebPkiServerVerifier>>,
    with_name: bool,
}

impl ServerCertVerifier for CertificateVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let Some(by) = &self.chain else { return Ok(ServerCertVerified::assertion()) };
        match by.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now) {
            // The name is looked at last: an error about it says that the chain is good.
            Err(rustls::Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) if !self.with_name => Ok(ServerCertVerified::assertion()),
            verified => verified,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let Some(by) = &self.chain else { return Ok(HandshakeSignatureValid::assertion()) };
        by.verify_tls12_signature(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let Some(by) = &self.chain else { return Ok(HandshakeSignatureValid::assertion()) };
        by.verify_tls13_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        match &self.chain {
            None => provider().signature_verification_algorithms.supported_schemes(),
            Some(by) => by.supported_verify_schemes(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{ClientSide, ServerSide, TlsError, accept, connect, server_side};
    use crate::address::Address;
    use crate::proxy::connect::stream::{Socket, Stream};
    use crate::proxy::settings::{
        BackendTls, BackendTlsMode, ListenTls, ListenTlsMode, TlsDoor, TlsIdentity,
    };
    use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
    use std::fs;
    use std::path::{Path, PathBuf};
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::UnixStream;

    /// A CA's certificate and a certificate that it gave to `name`, in `dir`.
    fn signed(dir: &Path, name: &str) -> (PathBuf, TlsIdentity) {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let key = KeyPair::generate().unwrap();
        let cert = CertificateParams::new([name.to_owned()]).unwrap().signed_by(&key, &issuer).unwrap();
        let file = |what: &str, pem: String| {
            let path = dir.join(format!("{name}.{what}"));
            fs::write(&path, pem).unwrap();
            path
        };
        let identity = TlsIdentity { cert: file("cert", cert.pem()), key: file("key", key.serialize_pem()) };
        (file("ca", issuer.pem()), identity)
    }

    fn listen(identity: Option<TlsIdentity>, client_ca: Option<PathBuf>) -> ListenTls {
        ListenTls { door: TlsDoor::Mysql, mode: ListenTlsMode::Required, identity, client_ca }
    }

    fn backend(mode: BackendTlsMode, ca: Option<PathBuf>, identity: Option<TlsIdentity>) -> BackendTls {
        BackendTls { mode, ca, identity }
    }

    /// Both sides of one connection, and bytes both ways, by what the settings made.
    async fn meet(client: ServerSide, server: ClientSide, host: &str) -> std::io::Result<()> {
        let (ServerSide::Preferred(connector) | ServerSide::Required(connector)) = client else {
            panic!("no TLS")
        };
        let (near, far) = UnixStream::pair().unwrap();
        let accepting = tokio::spawn(async move {
            let mut stream = accept(&server.acceptor.unwrap(), Socket::Unix(far)).await?;
            stream.write_all(b"hello").await?;
            stream.flush().await?;
            std::io::Result::Ok(stream)
        });
        let address = Address::Tcp { host: host.to_owned(), port: 1 };
        let mut stream = connect(&connector, Socket::Unix(near), &address).await?;
        let mut text = [0; 5];
        stream.read_exact(&mut text).await?;
        assert_eq!(
            (&text, stream.is_secure(), matches!(stream, Stream::ServerTls(_))),
            (b"hello", true, true)
        );
        accepting.await.unwrap().map(drop)
    }

    #[tokio::test]
    async fn the_server_is_verified_as_far_as_the_mode_says() {
        let dir = tempfile::tempdir().unwrap();
        let (ca, identity) = signed(dir.path(), "db.example");
        let (other_ca, _) = signed(dir.path(), "other.example");
        for (mode, ca, host, expect) in [
            (BackendTlsMode::Preferred, None, "db.example", true),
            (BackendTlsMode::Required, None, "elsewhere", true),
            (BackendTlsMode::Required, None, "127.0.0.1", true),
            (BackendTlsMode::VerifyCa, Some(&ca), "elsewhere", true),
            (BackendTlsMode::VerifyCa, Some(&other_ca), "db.example", false),
            (BackendTlsMode::VerifyIdentity, Some(&ca), "db.example", true),
            (BackendTlsMode::VerifyIdentity, Some(&ca), "elsewhere", false),
            (BackendTlsMode::VerifyIdentity, Some(&ca), "127.0.0.1", false),
            (BackendTlsMode::VerifyIdentity, Some(&other_ca), "db.example", false),
        ] {
            let client = server_side(&backend(mode, ca.cloned(), None)).unwrap();
            let server = ClientSide::new(&listen(Some(identity.clone()), None), dir.path()).unwrap();
            let result = meet(client, server, host).await;
            assert_eq!(result.is_ok(), expect, "{mode:?} {host} {result:?}");
        }
    }

    #[tokio::test]
    async fn a_client_shows_a_certificate_where_a_ca_is_set() {
        let dir = tempfile::tempdir().unwrap();
        let (ca, identity) = signed(dir.path(), "app.example");
        let (_, stranger) = signed(dir.path(), "stranger.example");
        for (shown, expect) in [(Some(identity), true), (Some(stranger), false), (None, false)] {
            let client = server_side(&backend(BackendTlsMode::Required, None, shown)).unwrap();
            let server = ClientSide::new(&listen(None, Some(ca.clone())), dir.path()).unwrap();
            let result = meet(client, server, "localhost").await;
            assert_eq!(result.is_ok(), expect, "{result:?}");
        }
    }

    #[tokio::test]
    async fn the_certificate_of_a_first_start_serves_and_verifies() {
        let dir = tempfile::tempdir().unwrap();
        let server = ClientSide::new(&listen(None, None), dir.path()).unwrap();
        assert!(server.is_required);
        let made = dir.path().join("tls.pem");
        let client = server_side(&backend(BackendTlsMode::VerifyIdentity, Some(made), None)).unwrap();
        meet(client, server, "localhost").await.unwrap();
    }

    #[test]
    fn errors_name_the_file_and_the_remedy() {
        let dir = tempfile::tempdir().unwrap();
        let (_, identity) = signed(dir.path(), "a");
        let empty = dir.path().join("empty");
        fs::write(&empty, "").unwrap();
        let check = |error: Result<(), TlsError>, texts: &[&str]| {
            let error = error.unwrap_err().to_string();
            assert!(texts.iter().all(|text| error.contains(text)), "{error}");
        };
        let listen = |cert: &Path, key: &Path| {
            let identity = TlsIdentity { cert: cert.to_owned(), key: key.to_owned() };
            ClientSide::new(&listen(Some(identity), None), dir.path()).map(drop)
        };
        check(listen("/nowhere/c".as_ref(), &identity.key), &["listen.tls.cert", "/nowhere/c", "may read"]);
        check(listen(&identity.cert, &identity.cert), &["listen.tls.key", "a.cert"]);
        check(listen(&empty, &identity.key), &["empty", "BEGIN CERTIFICATE"]);
        check(
            server_side(&backend(BackendTlsMode::VerifyCa, None, None)).map(drop),
            &["verify_ca", "backend.tls.ca"],
        );
        let unwritable =
            ClientSide::new(&super::tests::listen(None, None), "/proc/nowhere".as_ref()).map(drop);
        check(unwritable, &["/proc/nowhere", "listen.tls.cert"]);
    }
}
