//! The door for programs that speak HTTP: ids, and what they mean, as JSON (docs/http.md).
//!
//! Sources: RFC 9110 and RFC 9112 (HTTP), RFC 9457 (problem details), RFC 6750 and RFC 7617 (Bearer and Basic). Connections are
//! hyper's, paths are axum's, and the OpenAPI document is made by utoipa from the functions that answer.

mod answers;
mod compat;
mod connection;
mod document;
mod login;
mod office;
mod problem;
mod wanted;

use std::io;
use std::sync::Arc;

use self::compat::Paths;
pub use self::compat::Service;
use self::login::Visitor;
use self::office::ApiOffice;
use super::entry::{End, Guest, Protocol};
use super::issuer::Issuer;

/// The HTTP API.
pub struct Api {
    office: Arc<ApiOffice>,
    paths: Arc<Paths>,
}

impl Api {
    /// `is_answered` says of another service whether its paths are answered. It is asked for each request, so that a reload counts.
    pub fn new(issuer: Issuer, is_answered: impl Fn(Service) -> bool + Send + Sync + 'static) -> Api {
        let (router, document) = document::router();
        let office = Arc::new(ApiOffice::new(issuer, document));
        Api { paths: Arc::new(Paths::new(router, &office, is_answered)), office }
    }
}

impl Protocol for Api {
    const NAME: &'static str = "the HTTP API";
    const NEEDS_TLS: &'static str = problem::NEEDS_TLS;

    async fn serve(&self, guest: Guest<'_>) -> io::Result<End> {
        let Guest { stream, from, is_tls, id, limits, place, draining, .. } = guest;
        let visitor = Visitor::new(self.office.clone(), (from, is_tls), id, (limits.clients, place));
        connection::serve(stream, &self.paths, visitor, limits, draining).await
    }
}
