use http::Method;

use super::ApiError;

/// Which part of the API a request is for.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Call {
    /// Chat or text completion: goes to an engine.
    Inference,
    /// The list of models.
    Models,
    /// One model.
    Model(String),
}

const SERVED: &str =
    "POST /v1/chat/completions, POST /v1/completions, GET /v1/models, GET /v1/models/{model}";

impl Call {
    pub(crate) fn parse(method: &Method, path: &str) -> Result<Self, ApiError> {
        let (call, takes, allow) = match path {
            "/v1/chat/completions" | "/v1/completions" => (Self::Inference, Method::POST, "POST"),
            "/v1/models" => (Self::Models, Method::GET, "GET"),
            _ => match path.strip_prefix("/v1/models/") {
                Some(id) if !id.is_empty() => (Self::Model(decoded(id)), Method::GET, "GET"),
                _ => return Err(ApiError::no_path(path, SERVED)),
            },
        };
        if *method == takes {
            Ok(call)
        } else {
            Err(ApiError::wrong_method(method, path, allow))
        }
    }
}

/// A path segment with its `%` escapes decoded; what is no escape stays as it is.
fn decoded(segment: &str) -> String {
    let mut bytes = Vec::with_capacity(segment.len());
    let mut rest = segment.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        let escape = (byte == b'%').then(|| after.split_at_checked(2).and_then(escaped));
        let (byte, after) = escape.flatten().unwrap_or((byte, after));
        bytes.push(byte);
        rest = after;
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn escaped<'a>((hex, after): (&[u8], &'a [u8])) -> Option<(u8, &'a [u8])> {
    if !hex.iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    let hex = std::str::from_utf8(hex).ok()?;
    Some((u8::from_str_radix(hex, 16).ok()?, after))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_id_may_hold_slashes_and_escapes() {
        let call = |path| Call::parse(&Method::GET, path).unwrap();
        assert_eq!(call("/v1/models/org/m-1"), Call::Model("org/m-1".into()));
        assert_eq!(
            call("/v1/models/org%2Fm%20x"),
            Call::Model("org/m x".into())
        );
        assert_eq!(call("/v1/models/50%"), Call::Model("50%".into()));
        assert_eq!(call("/v1/models/%zz%+1"), Call::Model("%zz%+1".into()));
    }

    #[test]
    fn a_wrong_method_says_which_one_is_right() {
        let error = Call::parse(&Method::OPTIONS, "/v1/chat/completions").unwrap_err();
        assert!(error.to_string().contains("POST"), "{error}");
    }

    #[test]
    fn an_unknown_path_says_which_ones_are_served() {
        for path in [
            "/",
            "/v1",
            "/v1/models/",
            "/v1/chat/completions/",
            "/v1/embeddings",
        ] {
            let error = Call::parse(&Method::POST, path).unwrap_err();
            assert!(
                error.to_string().contains("/v1/chat/completions"),
                "{error}"
            );
        }
    }
}
