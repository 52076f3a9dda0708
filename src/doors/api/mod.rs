//! The door for programs that speak HTTP: ids, and what they mean, as JSON (docs/http.md).
//!
//! Sources: RFC 9110 and RFC 9112 (HTTP), RFC 9457 (problem details), RFC 6750 and RFC 7617 (Bearer and Basic). Connections are
//! hyper's, paths are axum's, and the OpenAPI document is made by utoipa from the functions that answer.

mod answers;
mod connection;
mod document;
mod login;
mod office;
mod problem;
mod wanted;

use std::io;
use std::sync::Arc;

use axum::Router;

use self::login::Visitor;
use self::office::Office;
use super::desk::IdDesk;
use super::entry::{End, Guest, Protocol};

/// The HTTP API.
pub struct Api {
    office: Arc<Office>,
    router: Router,
}

impl Api {
    pub fn new(desk: IdDesk) -> Api {
        let (router, document) = document::router();
        let office = Arc::new(Office::new(desk, document));
        Api { router: router.with_state(office.clone()), office }
    }
}

impl Protocol for Api {
    const NAME: &'static str = "the HTTP API";
    const NEEDS_TLS: &'static str = problem::NEEDS_TLS;

    async fn serve(&self, guest: Guest<'_>) -> io::Result<End> {
        let Guest { stream, from, is_tls, id, limits, place, draining, .. } = guest;
        let visitor = Visitor::new(self.office.clone(), (from, is_tls), id, (limits.clients, place));
        connection::serve(stream, &self.router, visitor, limits, draining).await
    }
}
