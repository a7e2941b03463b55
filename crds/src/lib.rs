//! Refrain's contract, in three parts that know less of Kubernetes the further in they are:
//!
//! ```text
//!  api       what users write: Provider, Route          (custom resources)
//!    │
//!  compile   objects in → one Snapshot + a Verdict per object   (pure)
//!    ▼
//!  snapshot  what routers serve from                     (serde and a hash)
//!  report    what a router says back: digest, refusals, observations
//! ```
//!
//! Neither the clock, the network nor the API server is used here. The operator compiles what it
//! watches, a standalone router compiles what it reads from files, both with the same code.

pub mod api;
pub mod compile;
pub mod report;
pub mod schema;
pub mod snapshot;

/// The API group of every kind.
pub const GROUP: &str = "refrain.dev";
/// The one served and stored version.
pub const VERSION: &str = "v1alpha1";
