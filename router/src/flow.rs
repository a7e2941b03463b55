//! A request's life, one line per stage.

mod admit;
mod deliver;
mod forward;
mod hop;
mod pick;
mod recall;
pub(crate) mod record;
mod relay;
mod resolve;

use std::sync::Arc;

use http::{Request, Response, request};
use hyper::body::Incoming;

use self::forward::Outgoing;
use self::record::Record;
pub(crate) use self::relay::Body;
use self::relay::Reply;
pub(crate) use self::resolve::Variant;
use crate::api::{ApiError, Ask, Call, Upload, models};
use crate::serve::State;
use crate::table::Table;

/// Serves one request. The second value: whether all of the request was read, so that the
/// connection can take another.
pub(crate) async fn serve(state: Arc<State>, request: Request<Incoming>) -> (Response<Body>, bool) {
    let (head, body) = request.into_parts();
    let mut upload = Upload::new(body);
    let mut record = Record::begin(&state, &head);
    let reply = answer(&state, head, &mut upload, &mut record)
        .await
        .unwrap_or_else(|error| record.refused(&error));
    let is_read = upload.is_read();
    (relay::relay(reply, record, is_read), is_read)
}

async fn answer(
    state: &State,
    head: request::Parts,
    upload: &mut Upload,
    record: &mut Record,
) -> Result<Reply, ApiError> {
    let call = Call::parse(&head.method, head.uri.path())?;
    let table = state.table().ok_or_else(ApiError::not_configured)?;
    match call {
        Call::Models => Ok(Reply::json(models::list(&table))),
        Call::Model(id) => models::one(&table, &id).map(Reply::json),
        Call::Inference => infer(state, &table, head, upload, record).await,
    }
}

async fn infer(
    state: &State,
    table: &Table,
    head: request::Parts,
    upload: &mut Upload,
    record: &mut Record,
) -> Result<Reply, ApiError> {
    let caller = admit::admit(&head.headers);
    record.admitted(&caller);
    let ask = Ask::read(upload.read(state.settings.max_body_bytes).await?)?;
    record.asked(&ask);
    let variant = resolve::resolve(table, &ask)?;
    record.resolved(&variant);
    let reply = if let Some(reply) = recall::recall(&caller, &ask, &variant).await {
        reply
    } else {
        let outgoing = Outgoing::new(head, &ask, &variant, &record.request_id);
        forward::forward(&outgoing, &variant, record).await?
    };
    deliver::deliver(&ask, reply).await
}
