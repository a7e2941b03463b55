//! Bodies go through byte for byte, whatever is in them and however long they are.

use crate::client::{chat, request};
use crate::engine::{Engine, ok, reply};
use crate::router::{MAX_BODY, Router, backend, everything_to, provider, route, rule, snapshot};
use crate::wire::{Message, chunk};
use crds::snapshot::{Backend, Match};

#[tokio::test]
async fn bodies_that_engines_accept_arrive_as_they_were_sent() {
    let deep = format!(
        r#"{{"model":"m","x":{}{}}}"#,
        "[".repeat(100_000),
        "]".repeat(100_000)
    );
    let bodies: Vec<&[u8]> = vec![
        br#"{"model":"m","messages":[{"role":"user","content":"hi"}],"tools":[{"type":"function","function":{"name":"f"}}],"x_vendor":{"k":[1]}}"#,
        br#"{"model":"m","messages":[{"role":"assistant","content":null}]}"#,
        br#"{"model":"m","messages":[{"role":"user","content":[{"type":"text","text":"a"}]}],"temperature":1}"#,
        br#"{"model":"a","model":"m","seed":123456789012345678901234567890,"x":1e999,"y":-0.0}"#,
        br#"  { "model" : "m" , "temperature" : NaN , "top_p": -Infinity }  "#,
        b"{\"model\":\"m\",\"user\":\"\\ud83d\xff\xfe\"}",
        b"\xef\xbb\xbf{\"model\":\"m\"}",
        br#"{"mod\u0065l":"m","messages":"not even a list"}"#,
        br#"{"model":null}"#,
        b"{}",
        deep.as_bytes(),
    ];
    let engine = Engine::replying(ok("{}")).await;
    let router = Router::of(&[&engine]).await;
    let mut client = router.client().await;
    for body in &bodies {
        let response = client.chat(body).await;
        assert_eq!(response.status(), 200, "{}", String::from_utf8_lossy(body));
    }
    let seen: Vec<_> = engine.requests().into_iter().map(|r| r.body).collect();
    assert_eq!(seen, bodies);
}

#[tokio::test]
async fn broken_json_is_refused_with_its_place_and_the_connection_lives_on() {
    let engine = Engine::replying(ok("{}")).await;
    let router = Router::of(&[&engine]).await;
    let mut client = router.client().await;
    for (body, place) in [
        (r#"{"model":"m","x":}"#, "byte 17"),
        (r#"{"model":"m""#, "byte 12"),
        ("", "byte 0"),
        ("[]", "byte 0"),
        (r#"{"model":"m"} x"#, "byte 14"),
    ] {
        let response = client.chat(body).await;
        assert_eq!(response.status(), 400, "{body}");
        let error = response.error();
        assert_eq!(
            (&error["type"], &error["code"]),
            (&"invalid_request_error".into(), &"invalid_json".into())
        );
        assert!(
            error["message"].as_str().unwrap().contains(place),
            "{error}"
        );
    }
    let response = client.chat(r#"{"model":["m"]}"#).await;
    assert_eq!(response.status(), 400);
    assert_eq!(response.error()["param"], "model");
    assert!(engine.requests().is_empty());
    assert_eq!(client.chat("{}").await.status(), 200);
}

fn sized(len: usize) -> String {
    let frame = r#"{"model":"m","prompt":""}"#;
    format!(
        r#"{{"model":"m","prompt":"{}"}}"#,
        "x".repeat(len - frame.len())
    )
}

#[tokio::test]
async fn bodies_of_any_size_up_to_the_limit_go_through() {
    let engine = Engine::replying(ok("{}")).await;
    let router = Router::of(&[&engine]).await;
    let mut client = router.client().await;
    let mut sent = Vec::new();
    for len in [32_767, 32_769, 131_073, 1024 * 1024, MAX_BODY] {
        let body = sized(len);
        assert_eq!(client.chat(&body).await.status(), 200);
        let head = "POST /v1/completions HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n";
        client.send(head).await;
        for part in body.as_bytes().chunks(10_000) {
            client.0.send_chunk(part).await;
        }
        client.send("0\r\n\r\n").await;
        assert_eq!(client.response().await.status(), 200);
        sent.extend([body.clone(), body]);
    }
    let seen: Vec<_> = engine.requests().iter().map(Message::text).collect();
    assert!(seen == sent);
}

#[tokio::test]
async fn a_body_above_the_limit_is_refused_before_the_engine_hears_of_it() {
    let engine = Engine::replying(ok("{}")).await;
    let router = Router::of(&[&engine]).await;

    // Announced: refused before any of it is sent.
    let mut client = router.client().await;
    let head = format!(
        "POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n\r\n",
        MAX_BODY + 1
    );
    let response = client.ask(&head).await;
    assert_eq!(
        (response.status(), response.header("connection")),
        (413, Some("close"))
    );
    assert_eq!(response.error()["code"], "body_too_large");

    // A client that sends all of it before it looks still gets the answer.
    let mut client = router.client().await;
    client.send(&head).await;
    client.send(vec![b' '; MAX_BODY + 1]).await;
    assert_eq!(client.response().await.status(), 413);
    client.0.closed_in_silence().await;

    // Not announced.
    let mut client = router.client().await;
    client
        .send("POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n")
        .await;
    let part = chunk(vec![b' '; 1024 * 1024]);
    for _ in 0..=MAX_BODY / (1024 * 1024) + 8 {
        client.send(&part).await;
    }
    assert_eq!(client.response().await.status(), 413);
    assert_eq!(engine.connections(), 0);
}

#[tokio::test]
async fn a_client_that_waits_to_be_told_may_go_on_or_is_refused_at_once() {
    let engine = Engine::replying(ok("{}")).await;
    let router = Router::of(&[&engine]).await;
    let expecting = |len: usize| {
        format!(
            "POST /v1/completions HTTP/1.1\r\nhost: x\r\nexpect: 100-continue\r\ncontent-length: {len}\r\n\r\n"
        )
    };
    let mut client = router.client().await;
    client.send(expecting(2)).await;
    assert_eq!(client.0.head().await.unwrap().status(), 100);
    assert_eq!(client.ask("{}").await.status(), 200);
    assert_eq!(engine.request().header("expect"), None);
    assert_eq!(client.ask(expecting(MAX_BODY + 1)).await.status(), 413);
}

#[tokio::test]
async fn a_renamed_model_is_all_that_changes() {
    let engine = Engine::replying(ok("{}")).await;
    let renamed = Backend {
        model: Some("org/\"real\"".into()),
        ..backend("p")
    };
    let claims = [Match::Exact("alias".into()), Match::Prefix(String::new())];
    let rules = vec![rule(&claims, vec![renamed])];
    let table = snapshot(vec![provider("p")], vec![route("r", rules)]);
    let router = Router::start(&table).await;
    router.members("p", &[engine.address]);
    let mut client = router.client().await;
    for (sent, seen) in [
        (
            r#"{"model":"alias","messages":[{"model":"alias"}], "n": 1.50}"#,
            r#"{"model":"org/\"real\"","messages":[{"model":"alias"}], "n": 1.50}"#,
        ),
        (
            r#"{"model":"x" , "a":1,"model" : "alias"}"#,
            r#"{"model":"org/\"real\"" , "a":1,"model" : "org/\"real\""}"#,
        ),
        (r#"{ "a":1}"#, r#"{"model":"org/\"real\"", "a":1}"#),
        ("{ }", r#"{"model":"org/\"real\"" }"#),
        (r#"{"model":"org/\"real\""}"#, r#"{"model":"org/\"real\""}"#),
    ] {
        assert_eq!(client.chat(sent).await.status(), 200);
        let request = engine.requests().pop().unwrap();
        assert_eq!(request.text(), seen);
        assert_eq!(
            request.header("content-length"),
            Some(seen.len().to_string().as_str())
        );
    }
}

#[tokio::test]
async fn replies_of_a_real_engine_come_through_as_they_are() {
    for captured in [
        include_str!("../data/chat_response_raw.txt"),
        include_str!("../data/err_ctx.txt"),
        include_str!("../data/err_model.txt"),
    ] {
        let (head, body) = captured.split_once("\r\n\r\n").unwrap();
        let engine = Engine::replying(captured).await;
        let router = Router::of(&[&engine]).await;
        let response = router.client().await.chat("{}").await;
        assert_eq!(response.line, head.lines().next().unwrap());
        assert_eq!(response.text(), body);
        for line in head.lines().skip(1) {
            let (name, value) = line.split_once(": ").unwrap();
            assert_eq!(response.header(name), Some(value));
        }
    }
}

#[tokio::test]
async fn a_compressed_reply_keeps_its_bytes_and_its_label() {
    let zipped = [
        0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3, 0xab, 0xae, 5, 0, 0x43, 0xbf, 0xa6, 0xa3,
    ];
    let gzip = "content-type: application/json\r\ncontent-encoding: gzip\r\n";
    let engine = Engine::replying(reply("200 OK", gzip, zipped)).await;
    let router = Router::of(&[&engine]).await;
    let mut client = router.client().await;
    let response = client.ask(chat("accept-encoding: gzip\r\n", "{}")).await;
    assert_eq!(response.body, zipped);
    assert_eq!(response.header("content-encoding"), Some("gzip"));
    assert_eq!(engine.request().header("accept-encoding"), Some("gzip"));

    let streamed = chat("accept-encoding: gzip, br\r\n", r#"{"stream":true}"#);
    client.ask(streamed).await;
    let seen = engine.requests().pop().unwrap();
    assert_eq!(
        seen.header("accept-encoding"),
        Some("identity"),
        "streams are not compressed"
    );
}

#[tokio::test]
async fn an_empty_reply_is_passed_on() {
    let engine = Engine::replying(ok("")).await;
    let router = Router::start(&everything_to("p")).await;
    router.members("p", &[engine.address]);
    let mut client = router.client().await;
    for _ in 0..3 {
        let response = client
            .ask(request("POST /v1/completions?x=1", "", "{}"))
            .await;
        assert_eq!((response.status(), response.body.len()), (200, 0));
    }
    assert_eq!(
        engine.requests()[0].line,
        "POST /v1/completions?x=1 HTTP/1.1"
    );
    assert_eq!(engine.connections(), 1);
}
