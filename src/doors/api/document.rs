//! The paths, and the OpenAPI document of them.

use std::sync::Arc;

use axum::Router;
use axum::http::{Method, StatusCode, Uri};
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityRequirement, SecurityScheme};
use utoipa::{Modify, OpenApi};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::answers;
use super::compat::Service;
use super::office::ApiOffice;
use super::problem::{Problem, ProblemBody};
use crate::doors::issuer::shortened;

#[derive(OpenApi)]
#[openapi(
    info(
        title = "Rowstamp",
        description = "Ids for programs, from the generators that INSERTs get theirs from."
    ),
    components(schemas(ProblemBody)),
    modifiers(&Logins)
)]
struct Document;

struct Logins;

impl Modify for Logins {
    fn modify(&self, document: &mut utoipa::openapi::OpenApi) {
        let scheme = |scheme, description: &str| {
            SecurityScheme::Http(HttpBuilder::new().scheme(scheme).description(Some(description)).build())
        };
        let components = document.components.get_or_insert_default();
        let logins = [
            ("token", scheme(HttpAuthScheme::Bearer, "A token of a user: CREATE TOKEN on the console")),
            (
                "password",
                scheme(HttpAuthScheme::Basic, "A user and its password, over TLS or a loopback address"),
            ),
        ];
        let no_scopes: [&str; 0] = [];
        let security = document.security.get_or_insert_default();
        for (name, scheme) in logins {
            components.add_security_scheme(name, scheme);
            security.push(SecurityRequirement::new(name, no_scopes));
        }
    }
}

/// The paths, and the document as JSON.
pub(super) fn router() -> (Router<Arc<ApiOffice>>, String) {
    let (router, document) = OpenApiRouter::with_openapi(Document::openapi())
        .routes(routes!(answers::list))
        .routes(routes!(answers::look))
        .routes(routes!(answers::draw))
        .routes(routes!(answers::decode))
        .routes(routes!(answers::document))
        .split_for_parts();
    let router = router.fallback(no_path).method_not_allowed_fallback(no_method);
    // A document whose Serialize is derived can always be written.
    (router, document.to_pretty_json().unwrap_or_default())
}

/// A path that is none of this door's.
async fn no_path(uri: Uri) -> Problem {
    let path = shortened(uri.path());
    let why = match Service::of(uri.path()) {
        None => format!(
            "there is no {path:?}; the paths are /v1/generators, /v1/generators/{{g}}, /v1/generators/{{g}}/ids, \
             /v1/generators/{{g}}/ids/{{id}} and /v1/openapi.json"
        ),
        Some(service) => {
            let name = service.name();
            format!(
                "there is no {path:?}, since api.compat does not have {name:?}; add {name:?} to api.compat"
            )
        }
    };
    Problem::new(StatusCode::NOT_FOUND, "no_path", why)
}

/// Which methods there are is in the header `Allow`.
async fn no_method(method: Method, uri: Uri) -> Problem {
    let parts: Vec<_> = uri.path().split('/').collect();
    if matches!(parts[..], ["", "v1", "generators", _, "ids"]) {
        let why = format!("{method} draws no ids; use POST");
        return Problem::new(StatusCode::METHOD_NOT_ALLOWED, "no_method", why);
    }
    Problem::only_get(&method)
}
