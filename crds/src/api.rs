//! The kinds that users write. A third kind is a file here, a line in [`crds`], and a part of
//! [`crate::snapshot`].

pub mod condition;
pub mod field;
mod polish;
pub mod provider;
pub mod route;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt as _;

pub use self::field::{Port, ProviderRef, SecretRef, ServiceRef};
pub use self::provider::{
    Auth, AuthType, EndpointCounts, Provider, ProviderModel, ProviderSpec, ProviderStatus,
};
pub use self::route::{
    BackendRef, Balancing, MatchType, ModelMatch, Retry, Route, RouteMatch, RouteRule, RouteSpec,
    RouteStatus, Strategy,
};

/// Every custom resource definition, generated from the types.
pub fn crds() -> Vec<CustomResourceDefinition> {
    vec![Provider::crd(), Route::crd()]
        .into_iter()
        .map(polish::polish)
        .collect()
}
