//! What a client is told when it gets no reply of an engine: every status code that the router
//! itself gives is decided here, and rendered once in OpenAI's shape.

use bytes::Bytes;
use http::header::{ALLOW, CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use serde::Serialize;

use crate::metrics::Outcome;

/// The most of a client's own words that an error repeats.
const MAX_ECHO: usize = 200;
/// The most models that an error names.
const MAX_NAMES: usize = 20;

/// An error for a client.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub(crate) struct ApiError {
    status: StatusCode,
    code: &'static str,
    param: Option<&'static str>,
    message: String,
    outcome: Outcome,
    /// The methods that the path takes.
    allow: Option<&'static str>,
}

#[derive(Serialize)]
struct Rendered<'a> {
    error: Fields<'a>,
}

#[derive(Serialize)]
struct Fields<'a> {
    message: &'a str,
    r#type: &'static str,
    param: Option<&'static str>,
    code: &'static str,
}

impl ApiError {
    fn client(status: StatusCode, code: &'static str, message: String) -> Self {
        Self {
            status,
            code,
            param: None,
            message,
            outcome: Outcome::ClientError,
            allow: None,
        }
    }

    fn unavailable(code: &'static str, outcome: Outcome, message: String) -> Self {
        Self {
            status: StatusCode::SERVICE_UNAVAILABLE,
            code,
            param: None,
            message,
            outcome,
            allow: None,
        }
    }

    pub(crate) fn bad_body(message: String) -> Self {
        Self::client(StatusCode::BAD_REQUEST, "invalid_json", message)
    }

    pub(crate) fn bad_model(message: String) -> Self {
        Self {
            param: Some("model"),
            ..Self::client(StatusCode::BAD_REQUEST, "invalid_model", message)
        }
    }

    pub(crate) fn no_model() -> Self {
        Self {
            param: Some("model"),
            ..Self::client(
                StatusCode::BAD_REQUEST,
                "missing_model",
                "you must provide a model parameter".to_owned(),
            )
        }
    }

    /// `served` are the names of the models that there are, in order.
    pub(crate) fn unknown_model(model: &str, served: &[String]) -> Self {
        let model = echo(model);
        let message = match served {
            [] => format!("the model `{model}` does not exist; no model is served"),
            _ => format!(
                "the model `{model}` does not exist; served: {}",
                names(served)
            ),
        };
        Self {
            param: Some("model"),
            ..Self::client(StatusCode::NOT_FOUND, "model_not_found", message)
        }
    }

    pub(crate) fn no_path(path: &str, served: &str) -> Self {
        let message = format!("nothing is served at {}; served: {served}", echo(path));
        Self::client(StatusCode::NOT_FOUND, "not_found", message)
    }

    pub(crate) fn wrong_method(method: &Method, path: &str, allow: &'static str) -> Self {
        let message = format!("{} takes {allow}, not {method}", echo(path));
        Self {
            allow: Some(allow),
            ..Self::client(
                StatusCode::METHOD_NOT_ALLOWED,
                "method_not_allowed",
                message,
            )
        }
    }

    pub(crate) fn too_large(limit: usize) -> Self {
        let message = format!("the body is larger than {limit} bytes, the most that is taken");
        Self::client(StatusCode::PAYLOAD_TOO_LARGE, "body_too_large", message)
    }

    /// The client went away, or broke its own framing, while it sent the body.
    pub(crate) fn upload_broke(error: &hyper::Error) -> Self {
        let message = format!("the body did not arrive whole: {error}");
        Self {
            outcome: Outcome::ClientClosed,
            ..Self::client(StatusCode::BAD_REQUEST, "incomplete_body", message)
        }
    }

    pub(crate) fn not_configured() -> Self {
        let message = "the router has no configuration yet".to_owned();
        Self::unavailable("not_ready", Outcome::Rejected, message)
    }

    /// A rule that this router cannot serve, or whose backends are all refused.
    pub(crate) fn rejected(message: String) -> Self {
        Self::unavailable("route_unavailable", Outcome::Rejected, message)
    }

    pub(crate) fn no_endpoint(provider: &str) -> Self {
        let message = format!("Provider {provider} has no ready endpoint");
        Self::unavailable("no_endpoint", Outcome::NoEndpoint, message)
    }

    pub(crate) fn upstream(provider: &str, fault: &str) -> Self {
        Self {
            status: StatusCode::BAD_GATEWAY,
            code: "upstream_error",
            param: None,
            message: format!("no endpoint of Provider {provider} replied; the last one: {fault}"),
            outcome: Outcome::UpstreamError,
            allow: None,
        }
    }

    pub(crate) const fn status(&self) -> StatusCode {
        self.status
    }

    pub(crate) const fn outcome(&self) -> Outcome {
        self.outcome
    }

    pub(crate) fn headers(&self) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if let Some(allow) = self.allow {
            headers.insert(ALLOW, HeaderValue::from_static(allow));
        }
        if self.status == StatusCode::SERVICE_UNAVAILABLE {
            headers.insert(RETRY_AFTER, HeaderValue::from_static("1"));
        }
        headers
    }

    pub(crate) fn body(&self) -> Bytes {
        render(&self.message, self.status, self.param, self.code)
    }
}

/// The error object that tells a client of a stream that it will not be completed.
pub(crate) fn broken_stream(message: &str) -> Bytes {
    render(message, StatusCode::BAD_GATEWAY, None, "stream_broken")
}

fn render(
    message: &str,
    status: StatusCode,
    param: Option<&'static str>,
    code: &'static str,
) -> Bytes {
    let r#type = match status.as_u16() {
        401 => "authentication_error",
        403 => "permission_error",
        429 => "rate_limit_error",
        400..=499 => "invalid_request_error",
        _ => "server_error",
    };
    let error = Fields {
        message,
        r#type,
        param,
        code,
    };
    serde_json::to_vec(&Rendered { error })
        .unwrap_or_default()
        .into()
}

fn names(served: &[String]) -> String {
    let shown: Vec<_> = served.iter().take(MAX_NAMES).map(|n| echo(n)).collect();
    let shown = shown.join(", ");
    match served.len().saturating_sub(MAX_NAMES) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

fn echo(text: &str) -> String {
    if text.chars().nth(MAX_ECHO).is_none() {
        return text.to_owned();
    }
    text.chars().take(MAX_ECHO).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_model_error_names_it_and_twenty_that_are_served() {
        let served: Vec<_> = (10..35).map(|i| format!("m{i}")).collect();
        let error = ApiError::unknown_model("gpt", &served).to_string();
        assert!(
            error.contains("`gpt`") && error.contains("m29 and 5 more"),
            "{error}"
        );
        assert!(!error.contains("m30"), "{error}");
    }

    #[test]
    fn a_long_name_is_repeated_in_part() {
        let error = ApiError::unknown_model(&"é".repeat(1_000_000), &[]).to_string();
        assert!(error.chars().count() < MAX_ECHO + 100);
    }

    #[test]
    fn an_error_has_the_shape_that_clients_parse() {
        let error = ApiError::no_model();
        assert_eq!(
            error.body(),
            r#"{"error":{"message":"you must provide a model parameter","type":"invalid_request_error","param":"model","code":"missing_model"}}"#
        );
    }

    #[test]
    fn an_unavailable_route_says_when_to_try_again() {
        let headers = ApiError::no_endpoint("ns/p").headers();
        assert_eq!(headers.get(RETRY_AFTER).unwrap(), "1");
    }
}
