use crate::fleet::Endpoint;

/// How busy an endpoint is; less is better.
pub(super) fn score(endpoint: &Endpoint) -> u32 {
    endpoint.in_flight()
}
