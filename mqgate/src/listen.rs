//! `mqgate listen`: a receiver that prints what it is sent.

use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use http_body_util::{BodyExt, Empty};
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use jiff::tz::TimeZone;
use jiff::{Timestamp, ZonedDateTime};
use tokio::net::{TcpListener, TcpStream};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{Notify, Semaphore};

use crate::failure::Failure;
use crate::output;
use show::{Body, Received};
use tap::{Headers, Tap};

mod json;
mod show;
mod tap;

/// Connections beyond this wait to be accepted.
const MAX_CONNECTIONS: usize = 1024;
/// A longer body is answered 413.
const MAX_BODY_BYTES: u64 = 256 << 20;
const HEAD_TIMEOUT: Duration = Duration::from_secs(30);
const BODY_TIMEOUT: Duration = Duration::from_secs(60);

/// Be a receiver that prints what it is sent
#[derive(clap::Args, Debug, Clone)]
#[command(after_help = "\
Examples:
  mqgate listen                             answers 200 at http://127.0.0.1:9099/, whatever the path
  mqgate listen --status 500                what a receiver's failure looks like
  mqgate listen --port 9100 --delay 2s      a slow one")]
pub(crate) struct Args {
    /// 0 picks a free port
    #[arg(long, short, default_value_t = 9099)]
    port: u16,
    /// The address to listen on
    #[arg(long, value_name = "IP", default_value = "127.0.0.1")]
    host: IpAddr,
    /// What to answer
    #[arg(long, value_parser = status, default_value = "200")]
    status: StatusCode,
    /// How long to wait before the answer, such as 500ms or 2s
    #[arg(long, value_parser = delay, default_value = "0s")]
    delay: Duration,
}

fn status(text: &str) -> Result<StatusCode, String> {
    let status = text.parse::<StatusCode>().ok().filter(|status| status.as_u16() >= 200);
    status.ok_or_else(|| "an HTTP status is 200 to 999".to_owned())
}

fn delay(text: &str) -> Result<Duration, String> {
    humantime::parse_duration(text).map_err(|error| format!("{error}; a duration is 500ms, 2s, 1m30s"))
}

pub(crate) async fn run(args: Args) -> Result<(), Failure> {
    let at = SocketAddr::new(args.host, args.port);
    let mut terminate = signal(SignalKind::terminate())?;
    let listener = TcpListener::bind(at).await.map_err(|error| Failure::failed(format_args!("cannot listen on {at}: {error}")))?;
    let at = listener.local_addr()?;
    anstream::eprintln!("Listening at http://{at}/ (any path), answering {}. Ctrl-C ends it.", show::verdict(args.status, args.delay));
    let receiver = Arc::new(Receiver { status: args.status, delay: args.delay, received: AtomicU64::new(0), unheard: Notify::new() });
    tokio::select! {
        () = accept(listener, &receiver) => {}
        () = receiver.unheard.notified() => {}
        stopped = tokio::signal::ctrl_c() => stopped?,
        _ = terminate.recv() => {}
    }
    anstream::eprintln!("{} received.", output::counted(receiver.received.load(Ordering::Relaxed), "request"));
    Ok(())
}

async fn accept(listener: TcpListener, receiver: &Arc<Receiver>) {
    let room = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    loop {
        let permit = room.clone().acquire_owned().await.expect("the semaphore is never closed");
        match listener.accept().await {
            Ok((stream, _)) => {
                let receiver = receiver.clone();
                tokio::spawn(async move {
                    receiver.serve(stream).await;
                    drop(permit);
                });
            }
            Err(error) => {
                // Out of files, mostly: it passes as connections end.
                anstream::eprintln!("cannot accept a connection: {error}");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

struct Receiver {
    status: StatusCode,
    delay: Duration,
    received: AtomicU64,
    /// Nobody reads what is printed any more.
    unheard: Notify,
}

impl Receiver {
    async fn serve(self: Arc<Self>, stream: TcpStream) {
        let (tap, seen) = Tap::new(stream);
        let service = service_fn(move |request| {
            // Taken before anything of the body is read, which would follow the head in the tap.
            let headers = seen.take(request.headers());
            let receiver = self.clone();
            async move { Ok::<_, Infallible>(receiver.receive(request, headers).await) }
        });
        let mut server = hyper::server::conn::http1::Builder::new();
        server.timer(TokioTimer::new()).header_read_timeout(HEAD_TIMEOUT);
        if let Err(error) = server.serve_connection(TokioIo::new(tap), service).await {
            anstream::eprintln!("a connection broke off: {error}");
        }
    }

    async fn receive(&self, request: Request<Incoming>, headers: Headers) -> Response<Empty<Bytes>> {
        let (parts, incoming) = request.into_parts();
        let status = match tokio::time::timeout(BODY_TIMEOUT, read(incoming)).await {
            Ok(Ok(body)) if body.total_bytes <= MAX_BODY_BYTES => {
                let number = self.received.fetch_add(1, Ordering::Relaxed) + 1;
                let received = Received { number, method: parts.method, target: parts.uri, version: parts.version, headers, body };
                if output::line(received.block(&now(), self.status, self.delay)).is_err() {
                    self.unheard.notify_one();
                }
                self.status
            }
            Ok(Ok(_)) => StatusCode::PAYLOAD_TOO_LARGE,
            Ok(Err(error)) => {
                anstream::eprintln!("{} {}: the body broke off: {error}", parts.method, parts.uri);
                StatusCode::BAD_REQUEST
            }
            Err(_) => StatusCode::REQUEST_TIMEOUT,
        };
        tokio::time::sleep(self.delay).await;
        let mut response = Response::new(Empty::new());
        *response.status_mut() = status;
        response
    }
}

/// In the zone of whoever watches.
fn now() -> ZonedDateTime {
    Timestamp::from_millisecond(common::clock::now_ms()).unwrap_or_default().to_zoned_datetime(TimeZone::system())
}

/// Keeps what will be shown, and counts the rest.
async fn read(mut incoming: Incoming) -> Result<Body, hyper::Error> {
    let mut body = Body::default();
    while let Some(frame) = incoming.frame().await {
        if let Ok(data) = frame?.into_data() {
            body.take(&data);
        }
        if body.total_bytes > MAX_BODY_BYTES {
            break;
        }
    }
    Ok(body)
}
