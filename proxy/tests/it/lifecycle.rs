//! Starting and ending.

use std::sync::Arc;
use std::time::Duration;

use common::config::ProxyConfig;
use common::serve::Drained;
use prometheus_client::registry::Registry;
use proxy::{Bound, Proxy, StartError};

use crate::client::{Client, post};
use crate::gateway::{config, running};

#[tokio::test]
async fn nobody_is_let_in_from_elsewhere_unasked() {
    let everywhere = ProxyConfig { listen: "0.0.0.0:0".parse().unwrap(), ..config() };
    let error = Bound::new(&everywhere).unwrap_err();
    assert!(matches!(error, StartError::OpenToAnyone(_)) && error.to_string().contains("allow_anonymous"), "{error}");
    assert!(Bound::new(&ProxyConfig { allow_anonymous: true, ..everywhere }).is_ok());
}

#[tokio::test]
async fn a_taken_port_is_named() {
    let gateway = running().await;
    let taken = ProxyConfig { listen: gateway.address, ..config() };
    let error = Proxy::bind(&taken, gateway.gate.clone(), &mut Registry::default()).err().unwrap();
    assert!(error.to_string().contains(&gateway.address.to_string()), "{error}");
}

#[tokio::test]
async fn readiness_is_the_queues() {
    let gateway = running().await;
    let proxy = Proxy::bind(&config(), Arc::clone(&gateway.gate) as _, &mut Registry::default()).unwrap();
    assert_eq!(proxy.missing()(), Vec::<String>::new());
}

#[tokio::test]
async fn a_drain_answers_what_is_under_way_and_refuses_what_is_new() {
    let gateway = running().await;
    gateway.gate.close();
    let mut under_way = Client::connect(gateway.address).await;
    under_way.send(&post("/topics/t1", "", b"v")).await;
    gateway.eventually("it is in", async |g| g.end("t1", 0).await == 1).await;
    let mut late = Client::connect(gateway.address).await;
    let head = post("/topics/t1", "", b"late");
    late.send(&head[..20]).await;
    tokio::time::sleep(Duration::from_millis(50)).await;
    gateway.drain.cancel();
    tokio::time::sleep(Duration::from_millis(50)).await;
    late.send(&head[20..]).await;
    let answer = late.answer().await;
    assert_eq!((answer.status, answer.code()), (503, "shutting_down".to_owned()));
    assert!(answer.header("retry-after").is_some());
    assert_eq!(answer.header("connection"), Some("close"));
    gateway.gate.open();
    let answer = under_way.answer().await;
    assert_eq!((answer.status, answer.header("connection")), (200, Some("close")));
    assert_eq!(gateway.served.await.unwrap(), Drained { cut_connections: 0 });
}
