//! The router: sends each request to the engine replica that has already done the work.
//!
//! ```text
//!  source (Secret, files) ─► Table   immutable, swapped whole
//!  EndpointSlices         ─► Fleet   live, survives swaps
//!  clients ─► admit → resolve → recall → pick → forward → deliver → relay → record ─► engines
//!                                                        report ─► one Lease per router pod
//! ```

mod access;
pub mod admin;
mod api;
pub mod app;
pub mod args;
pub mod copy;
pub mod discover;
pub mod fleet;
mod flow;
pub mod metrics;
mod pick;
pub mod report;
pub mod serve;
pub mod source;
pub mod table;
pub mod telemetry;
mod upstream;
