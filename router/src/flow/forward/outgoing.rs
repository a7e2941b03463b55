use bytes::Bytes;
use http::header::{
    ACCEPT_ENCODING, AUTHORIZATION, CONTENT_LENGTH, COOKIE, EXPECT, HOST, HeaderMap, HeaderName,
};
use http::{HeaderValue, Method, Request, Uri, request};
use http_body_util::Full;

use crate::api::Ask;
use crate::fleet::Endpoint;
use crate::flow::record::REQUEST_ID;
use crate::flow::{Variant, hop};
use crate::table::Credential;
use crate::upstream::Outbound;

const X_API_KEY: HeaderName = HeaderName::from_static("x-api-key");
const API_KEY: HeaderName = HeaderName::from_static("api-key");

/// A request as engines get it; the same for each that is tried.
#[derive(Debug)]
pub(in crate::flow) struct Outgoing {
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
}

impl Outgoing {
    pub(in crate::flow) fn new(
        head: request::Parts,
        ask: &Ask,
        variant: &Variant,
        request_id: &HeaderValue,
    ) -> Self {
        let mut headers = head.headers;
        hop::strip(&mut headers);
        for name in [HOST, CONTENT_LENGTH, EXPECT] {
            headers.remove(name);
        }
        authenticate(&mut headers, &variant.backend.provider.credential);
        headers.insert(REQUEST_ID, request_id.clone());
        if ask.is_stream() {
            // A compressed stream reaches the client in lumps.
            headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        }
        let path = head.uri.path_and_query().cloned();
        Self {
            method: head.method,
            uri: path.map_or_else(Uri::default, Uri::from),
            headers,
            body: ask.body_for(variant.upstream_model.as_deref()),
        }
    }

    pub(super) fn request(&self, endpoint: &Endpoint) -> Outbound {
        let mut request = Request::new(Full::new(self.body.clone()));
        *request.method_mut() = self.method.clone();
        *request.uri_mut() = self.uri.clone();
        *request.headers_mut() = self.headers.clone();
        request
            .headers_mut()
            .insert(HOST, endpoint.authority().clone());
        request
    }
}

/// Puts the Provider's credential in place of the client's, which goes no further unless the
/// Provider asks for it.
fn authenticate(headers: &mut HeaderMap, credential: &Credential) {
    for name in [API_KEY, COOKIE] {
        headers.remove(name);
    }
    if matches!(credential, Credential::Passthrough) {
        return;
    }
    for name in [AUTHORIZATION, X_API_KEY] {
        headers.remove(name);
    }
    if let Credential::Header(name, value) = credential {
        headers.insert(name, value.clone());
    }
}
