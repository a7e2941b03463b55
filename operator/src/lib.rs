//! Refrain's operator: what users wrote, compiled into the one snapshot that routers serve from.
//!
//! ```text
//!  stores   every watch; each keeps only what is needed of its objects
//!    │ wakes, debounced
//!  cycle    gather → crds::compile (pure) → apply → report
//!    │
//!    ├─ apply    the snapshot Secret, only when its digest changed
//!    └─ report   conditions from verdicts and from what the routers' Leases say
//!  lease    which replica may write; the others keep warm caches
//! ```
//!
//! A third kind is a watch in `stores`, a line in `stores::gather`, and whatever its status
//! holds besides conditions in `report::decide`.

pub mod admin;
pub mod app;
pub mod args;
pub mod telemetry;

mod answer;
mod apply;
mod backoff;
mod board;
mod cycle;
mod debounce;
mod lease;
mod metrics;
mod report;
mod stores;

/// Field manager of everything but statuses, and the reporter of Events.
const NAME: &str = "refrain-operator";
