//! Condition types and reasons, as users read them in `kubectl get` and `kubectl describe`.

/// The object was read and its spec is one that the routers can serve.
pub const ACCEPTED: &str = "Accepted";
/// Everything that the object refers to exists and may be used.
pub const RESOLVED_REFS: &str = "ResolvedRefs";
/// Every ready router pod serves this generation.
pub const PROGRAMMED: &str = "Programmed";
/// The object is programmed and has something to send requests to.
pub const READY: &str = "Ready";
