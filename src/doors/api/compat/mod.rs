//! The paths of other id services, for clients that were written for these: which they are, and who answers.

mod leaf;
mod udf;

use std::sync::Arc;

use axum::Router;
use axum::response::{IntoResponse, Response};
use hyper_util::service::TowerToHyperService;

use super::office::ApiOffice;
use super::problem::Problem;

/// Another id service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Service {
    Leaf,
    Udf,
}

impl Service {
    /// In `api.compat`.
    pub(super) fn name(self) -> &'static str {
        match self {
            Service::Leaf => "leaf",
            Service::Udf => "udf",
        }
    }

    /// Whose path it is.
    pub(super) fn of(path: &str) -> Option<Service> {
        if leaf::has(path) {
            Some(Service::Leaf)
        } else if udf::has(path) {
            Some(Service::Udf)
        } else {
            None
        }
    }
}

/// The routers of the paths.
pub(super) struct Paths {
    is_answered: Box<dyn Fn(Service) -> bool + Send + Sync>,
    own: TowerToHyperService<Router>,
    leaf: TowerToHyperService<Router>,
    udf: TowerToHyperService<Router>,
}

impl Paths {
    /// `is_answered`: true if the paths of a service are answered. It is asked for each request.
    pub(super) fn new(
        own: Router<Arc<ApiOffice>>,
        office: &Arc<ApiOffice>,
        is_answered: impl Fn(Service) -> bool + Send + Sync + 'static,
    ) -> Paths {
        let [own, leaf] = [own, leaf::router()].map(|router| router.with_state(office.clone()));
        let [own, leaf, udf] = [own, leaf, udf::router(office.clone())].map(TowerToHyperService::new);
        Paths { is_answered: Box::new(is_answered), own, leaf, udf }
    }

    fn service_of(&self, path: &str) -> Option<Service> {
        Service::of(path).filter(|service| (self.is_answered)(*service))
    }

    pub(super) fn router_of(&self, path: &str) -> &TowerToHyperService<Router> {
        match self.service_of(path) {
            None => &self.own,
            Some(Service::Leaf) => &self.leaf,
            Some(Service::Udf) => &self.udf,
        }
    }

    /// The answer to a request whose body is refused.
    pub(super) fn refused(&self, path: &str, problem: Problem) -> Response {
        match self.service_of(path) {
            Some(Service::Udf) => udf::refused(problem),
            _ => problem.into_response(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Service;

    #[test]
    fn whose_a_path_is() {
        let (leaf, udf) = (Some(Service::Leaf), Some(Service::Udf));
        for (path, expect) in [
            ("/api/segment/get/orders", leaf),
            ("/api/segment/get/", leaf),
            ("/api/snowflake/get/a/b", leaf),
            ("/decodeSnowflakeId", leaf),
            ("/decodeSnowflakeIds", None),
            ("/api/segment/put/orders", None),
            ("/service/id", udf),
            ("/service/id/", udf),
            ("/service/id/batch/3", udf),
            ("/service/identity", None),
            ("/v1/generators", None),
            ("/", None),
        ] {
            assert_eq!(Service::of(path), expect, "{path}");
        }
    }
}
