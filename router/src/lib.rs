//! The router: sends each request to the engine replica that has already done the work.
//!
//! ```text
//!  source (Secret, files) ─► Table   immutable, swapped whole
//!  EndpointSlices         ─► Fleet   live, survives swaps
//!  clients ─► admit → resolve → recall → pick → forward → deliver → relay → record ─► engines
//!                                                        report ─► one Lease per router pod
//! ```

pub mod fleet;
