//! What the API server said, in its own words and no more.

/// The message of a refusal, or the whole error when there was no answer.
pub(crate) fn said(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) => format!("{} {}", status.code, status.message),
        error => error.to_string(),
    }
}
