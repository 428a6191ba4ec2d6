//! HTTP/2 with every engine, by another implementation as the client.
//!
//! Owns: the client ([`Http2`]), and what is asked of every engine: that all arrives whole on streams beside each
//! other, that answers are those of HTTP/1.1, and that a connection ends in good order.

use std::future::Future;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use h2::client::SendRequest;
use h2::{Reason, RecvStream, SendStream};
use http::{Request, Response};
use rustix::process::Signal;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;
use tokio_rustls::TlsConnector;

use crate::client::{PATIENCE, connect_from};
use crate::engine::{Engine, for_engines};
use crate::server::Launch;
use crate::tree::pattern;

for_engines!([
    mp = MP,
    thread_pool = THREAD_POOL,
    thread_per_request = THREAD_PER_REQUEST,
    thread_per_session = THREAD_PER_SESSION,
    sped = SPED,
    amped = AMPED,
    amped_2 = AMPED_2,
    amped_with_helper_processes = AMPED_WITH_HELPER_PROCESSES,
    amped_mapped = AMPED_MAPPED,
    amped_caches_off = AMPED_CACHES_OFF,
    co_amped = CO_AMPED,
    pipelined = PIPELINED,
    proactor = PROACTOR,
] => [
    files_of_every_size_arrive_whole_on_streams_beside_each_other,
    answers_are_those_of_http_1,
    uploads_are_stored_beside_downloads,
    a_stream_that_is_taken_back_disturbs_no_other,
    what_was_asked_before_the_end_is_answered,
]);

/// The other end of one connection. All waits are bounded.
pub(crate) struct Http2 {
    runtime: Runtime,
    sender: SendRequest<Bytes>,
    /// Ends when the connection does.
    connection: JoinHandle<Result<(), h2::Error>>,
}

type Bytes = std::io::Cursor<Vec<u8>>;

/// An answer that has begun to arrive.
pub(crate) struct Body {
    body: RecvStream,
    stream: SendStream<Bytes>,
    content: Vec<u8>,
}

/// A stream that carries another protocol, or the answer of who refused to.
pub(crate) struct Tunnel {
    pub(crate) head: Response<()>,
    body: RecvStream,
    stream: SendStream<Bytes>,
}

/// What came back.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    /// In the order of their names.
    pub(crate) fields: Vec<(String, String)>,
    pub(crate) content: Vec<u8>,
}

impl Http2 {
    /// In clear text.
    pub(crate) fn connect(address: SocketAddr) -> Http2 {
        Http2::over(async move { TcpStream::connect(address).await.expect("the server listens") })
    }

    /// In clear text, over a Unix socket.
    pub(crate) fn connect_unix(path: PathBuf) -> Http2 {
        Http2::over(async move { UnixStream::connect(path).await.expect("the server listens") })
    }

    /// Over TLS, where the server has chosen HTTP/2.
    pub(crate) fn connect_secured(address: SocketAddr, config: &Arc<ClientConfig>, name: ServerName<'static>) -> Http2 {
        Http2::connect_secured_from(None, address, config, name)
    }

    /// The same from another client network: see [`connect_from`].
    pub(crate) fn connect_secured_from(
        host: Option<u8>,
        address: SocketAddr,
        config: &Arc<ClientConfig>,
        name: ServerName<'static>,
    ) -> Http2 {
        let mut config = ClientConfig::clone(config);
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        let connector = TlsConnector::from(Arc::new(config));
        Http2::over(async move {
            let socket = match host {
                None => TcpStream::connect(address).await.expect("the server listens"),
                Some(host) => {
                    let socket = connect_from(host, address);
                    socket.set_nonblocking(true).expect("a fresh socket takes options");
                    TcpStream::from_std(socket).expect("the runtime takes it")
                }
            };
            let stream = connector.connect(name, socket).await.expect("the server is trusted");
            assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
            stream
        })
    }

    /// The same with a server that may refuse the connection.
    pub(crate) fn try_connect_secured(
        address: SocketAddr,
        config: &Arc<ClientConfig>,
        name: ServerName<'static>,
    ) -> Option<Http2> {
        let mut config = ClientConfig::clone(config);
        config.alpn_protocols = vec![b"h2".to_vec()];
        let connector = TlsConnector::from(Arc::new(config));
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().build().expect("there are descriptors");
        let (sender, connection) = runtime.block_on(within(async {
            let socket = TcpStream::connect(address).await.ok()?;
            let stream = connector.connect(name, socket).await.ok()?;
            let (sender, connection) = h2::client::Builder::new().handshake(stream).await.ok()?;
            Some((sender, tokio::spawn(connection)))
        }))?;
        Some(Http2 { runtime, sender, connection })
    }

    fn over<S: AsyncRead + AsyncWrite + Send + Unpin + 'static>(stream: impl Future<Output = S>) -> Http2 {
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().build().expect("there are descriptors");
        let (sender, connection) = runtime.block_on(within(async {
            let stream = stream.await;
            let (sender, connection) =
                h2::client::Builder::new().handshake(stream).await.expect("the server speaks HTTP/2");
            (sender, tokio::spawn(connection))
        }));
        Http2 { runtime, sender, connection }
    }

    /// Asks for all of these at once.
    pub(crate) fn ask(&mut self, requests: Vec<Request<Vec<u8>>>) -> Vec<Result<Answer, h2::Error>> {
        let sender = &mut self.sender;
        self.runtime
            .block_on(within(async {
                let mut answers = Vec::new();
                for request in requests {
                    let (head, content) = request.into_parts();
                    let mut ready = sender.clone().ready().await?;
                    let (response, mut stream) =
                        ready.send_request(Request::from_parts(head, ()), content.is_empty())?;
                    answers.push(tokio::spawn(async move {
                        if !content.is_empty() {
                            // As far as the window allows, and further when it does.
                            stream.send_data(std::io::Cursor::new(content), true)?;
                        }
                        read(response.await?).await
                    }));
                }
                let mut read = Vec::new();
                for answer in answers {
                    read.push(answer.await.expect("reading does not panic"));
                }
                Ok::<_, h2::Error>(read)
            }))
            .expect("the connection takes requests")
    }

    /// As [`Http2::ask`], by who is not surprised that its content is not taken.
    pub(crate) fn ask_to_be_refused(&mut self, requests: Vec<Request<Vec<u8>>>) -> Vec<Result<Answer, h2::Error>> {
        let sender = &mut self.sender;
        self.runtime.block_on(within(async {
            let mut answers = Vec::new();
            for request in requests {
                let (head, content) = request.into_parts();
                let mut ready = sender.clone().ready().await.expect("the connection takes requests");
                let sent = ready.send_request(Request::from_parts(head, ()), content.is_empty());
                let (response, mut stream) = sent.expect("the connection takes requests");
                if !content.is_empty() {
                    // As far as the window allows, until the stream is reset.
                    let _ = stream.send_data(std::io::Cursor::new(content), true);
                }
                answers.push(tokio::spawn(async move { read(response.await?).await }));
            }
            let mut read = Vec::new();
            for answer in answers {
                read.push(answer.await.expect("reading does not panic"));
            }
            read
        }))
    }

    /// Asks, of `protocol` if there is one (RFC 8441), and sends no more than this of the content: the status, and the
    /// content of the answer, which has to come whole. Our side of the stream stays open until then, and is taken back.
    ///
    /// # Errors
    /// The connection takes no request, or the stream ends without a whole answer.
    pub(crate) fn ask_without_end(
        &mut self,
        request: Request<Vec<u8>>,
        protocol: Option<&'static str>,
    ) -> Result<(u16, Vec<u8>), h2::Error> {
        let sender = &mut self.sender;
        self.runtime.block_on(within(async {
            let (mut head, content) = request.into_parts();
            if let Some(protocol) = protocol {
                head.extensions.insert(h2::ext::Protocol::from_static(protocol));
            }
            let mut ready = sender.clone().ready().await?;
            let (response, mut stream) = ready.send_request(Request::from_parts(head, ()), false)?;
            if !content.is_empty() {
                stream.send_data(std::io::Cursor::new(content), false)?;
            }
            let answer = read(response.await?).await?;
            stream.send_reset(Reason::CANCEL);
            Ok((answer.status, answer.content))
        }))
    }

    /// Asks for this without content, which only the frame behind that of the head says.
    pub(crate) fn ask_ending_apart(&mut self, request: Request<Vec<u8>>) -> Result<Answer, h2::Error> {
        let sender = &mut self.sender;
        self.runtime.block_on(within(async {
            let mut ready = sender.clone().ready().await?;
            let (response, mut stream) = ready.send_request(request.map(|_| ()), false)?;
            stream.send_data(std::io::Cursor::new(Vec::new()), true)?;
            read(response.await?).await
        }))
    }

    /// Asks for one.
    ///
    /// # Errors
    /// The connection takes no request, or the stream ends without a whole answer.
    pub(crate) fn try_ask(&mut self, request: Request<Vec<u8>>) -> Result<Answer, h2::Error> {
        let sender = &mut self.sender;
        self.runtime.block_on(within(async {
            let (head, content) = request.into_parts();
            let mut ready = sender.clone().ready().await?;
            let (response, mut stream) = ready.send_request(Request::from_parts(head, ()), content.is_empty())?;
            if !content.is_empty() {
                stream.send_data(std::io::Cursor::new(content), true)?;
            }
            read(response.await?).await
        }))
    }

    /// Asks with content, or with a head that ends the stream: the status, the content as far as it came, and whether
    /// that was whole. Nothing without an answer.
    pub(crate) fn try_ask_for_part(
        &mut self,
        request: Request<Vec<u8>>,
        has_content: bool,
    ) -> Option<(u16, Vec<u8>, bool)> {
        let sender = &mut self.sender;
        self.runtime.block_on(within(async {
            let (head, content) = request.into_parts();
            let mut ready = sender.clone().ready().await.ok()?;
            let (response, mut stream) = ready.send_request(Request::from_parts(head, ()), !has_content).ok()?;
            if has_content {
                // A server that has answered early may take no more.
                let _ = stream.send_data(std::io::Cursor::new(content), true);
            }
            let (head, mut body) = response.await.ok()?.into_parts();
            let mut content = Vec::new();
            while let Some(piece) = body.data().await {
                let Ok(piece) = piece else { return Some((head.status.as_u16(), content, false)) };
                let _ = body.flow_control().release_capacity(piece.len());
                content.extend_from_slice(&piece);
            }
            Some((head.status.as_u16(), content, true))
        }))
    }

    /// GETs all of these at once. Nothing for those whose answers have not begun when the connection ends.
    ///
    /// # Panics
    /// An answer that has begun does not come whole, or a stream ends otherwise than by the end of the connection.
    pub(crate) fn get_all(&mut self, paths: &[&str]) -> Vec<Option<Answer>> {
        let sender = &mut self.sender;
        self.runtime.block_on(within(async {
            let mut answers = Vec::new();
            for path in paths {
                let get = request("GET", path, &[]).map(|_| ());
                let sent = match sender.clone().ready().await {
                    Ok(mut ready) => ready.send_request(get, true).ok(),
                    Err(_) => None,
                };
                answers.push(tokio::spawn(async move {
                    match sent?.0.await {
                        Ok(response) => Some(read(response).await.expect("what has begun comes whole")),
                        Err(error) => {
                            assert!(error.is_go_away() || error.is_io(), "{error}");
                            None
                        }
                    }
                }));
            }
            let mut read = Vec::new();
            for answer in answers {
                read.push(answer.await.expect("it is as it should be"));
            }
            read
        }))
    }

    pub(crate) fn get(&mut self, path: &str) -> Answer {
        self.ask(vec![request("GET", path, &[])]).remove(0).expect("it is answered")
    }

    /// GETs `path` with these fields. The `Link` fields of each interim answer, as they came, and the answer.
    pub(crate) fn get_with_hints(&mut self, path: &str, fields: &[(&str, &str)]) -> (Vec<Vec<String>>, Answer) {
        let sender = &mut self.sender;
        self.runtime.block_on(within(async {
            let mut ready = sender.clone().ready().await.expect("the connection takes requests");
            let get = request("GET", path, fields).map(|_| ());
            let (mut response, _stream) = ready.send_request(get, true).expect("the connection takes requests");
            let mut hints = Vec::new();
            while let Some(interim) = std::future::poll_fn(|context| response.poll_informational(context)).await {
                let interim = interim.expect("interim answers are in form");
                assert_eq!(interim.status(), 103);
                let links = interim.headers().get_all("link").iter();
                hints.push(links.map(|link| link.to_str().expect("links are ASCII").to_owned()).collect());
            }
            let answer = read(response.await.expect("it is answered")).await.expect("it comes whole");
            (hints, answer)
        }))
    }

    /// Asks for `path`, and takes the first piece of its content.
    pub(crate) fn begin(&mut self, path: &str) -> Body {
        let sender = &mut self.sender;
        self.runtime.block_on(within(async {
            let mut ready = sender.clone().ready().await.expect("the connection takes requests");
            let get = request("GET", path, &[]).map(|_| ());
            let (response, stream) = ready.send_request(get, true).expect("the connection takes requests");
            let mut body = response.await.expect("it is answered").into_body();
            let content = body.data().await.expect("there is content").expect("it arrives").to_vec();
            Body { body, stream, content }
        }))
    }

    /// Opens a stream for another protocol (RFC 8441).
    ///
    /// # Errors
    /// The stream is refused without an answer.
    pub(crate) fn open(&mut self, protocol: &'static str, path: &str) -> Result<Tunnel, h2::Error> {
        let sender = &mut self.sender;
        self.runtime.block_on(within(async {
            let mut ready = sender.clone().ready().await.expect("the connection takes requests");
            assert!(ready.is_extended_connect_protocol_enabled(), "it is offered");
            let mut connect = request("CONNECT", path, &[("sec-websocket-version", "13")]).map(|_| ());
            connect.extensions_mut().insert(h2::ext::Protocol::from_static(protocol));
            let (response, stream) = ready.send_request(connect, false).expect("the connection takes requests");
            let (head, body) = response.await?.into_parts();
            Ok(Tunnel { head: Response::from_parts(head, ()), body, stream })
        }))
    }

    /// Asks with a head behind which content follows, and takes the head of the answer: none has been sent then.
    ///
    /// # Errors
    /// The stream ends without an answer.
    pub(crate) fn begin_two_way(&mut self, request: Request<Vec<u8>>) -> Result<Tunnel, h2::Error> {
        let sender = &mut self.sender;
        self.runtime.block_on(within(async {
            let mut ready = sender.clone().ready().await?;
            let (response, stream) = ready.send_request(request.map(|_| ()), false)?;
            let (head, body) = response.await?.into_parts();
            Ok(Tunnel { head: Response::from_parts(head, ()), body, stream })
        }))
    }

    /// Whether streams may be opened for other protocols. Known when something has been answered.
    pub(crate) fn offers_tunnels(&self) -> bool {
        self.sender.is_extended_connect_protocol_enabled()
    }

    /// Sends `bytes`, and takes as many: both at once, as far as the windows allow.
    pub(crate) fn exchange(&mut self, tunnel: &mut Tunnel, bytes: &[u8]) -> Vec<u8> {
        let Tunnel { body, stream, .. } = tunnel;
        self.runtime.block_on(within(async {
            stream.send_data(std::io::Cursor::new(bytes.to_vec()), false).expect("the stream is open");
            let mut got = Vec::new();
            while got.len() < bytes.len() {
                let piece = body.data().await.expect("the stream is open").expect("it arrives");
                body.flow_control().release_capacity(piece.len()).expect("so much came");
                got.extend_from_slice(&piece);
            }
            got
        }))
    }

    /// Ends our side. What still comes, up to the end of the other.
    pub(crate) fn end(&mut self, mut tunnel: Tunnel) -> Vec<u8> {
        self.runtime.block_on(within(async {
            tunnel.stream.send_data(std::io::Cursor::new(Vec::new()), true).expect("the stream is open");
            let mut rest = Vec::new();
            while let Some(piece) = tunnel.body.data().await {
                rest.extend_from_slice(&piece.expect("it arrives"));
            }
            rest
        }))
    }

    /// Takes the stream back.
    pub(crate) fn take_back(&mut self, mut tunnel: Tunnel) {
        tunnel.stream.send_reset(Reason::CANCEL);
        drop(tunnel);
        // The reset leaves before what is asked next is answered.
        self.runtime.block_on(tokio::task::yield_now());
    }

    /// Goes on with what the connection has to do by itself, and takes nothing of any answer.
    pub(crate) fn rest(&mut self, time: Duration) {
        self.runtime.block_on(async move { tokio::time::sleep(time).await });
    }

    /// Takes the rest.
    pub(crate) fn finish(&mut self, body: Body) -> Vec<u8> {
        let Body { mut body, mut content, .. } = body;
        self.runtime.block_on(within(async {
            body.flow_control().release_capacity(content.len()).expect("so much came");
            while let Some(piece) = body.data().await {
                let piece = piece.expect("it arrives");
                body.flow_control().release_capacity(piece.len()).expect("so much came");
                content.extend_from_slice(&piece);
            }
        }));
        content
    }

    /// Whether the connection has ended, or does in time, without an error.
    pub(crate) fn has_ended(self) -> bool {
        let Http2 { runtime, sender, connection } = self;
        drop(sender);
        runtime.block_on(within(connection)).expect("it does not panic").is_ok()
    }
}

async fn within<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, what).await.expect("in time")
}

async fn read(response: Response<RecvStream>) -> Result<Answer, h2::Error> {
    let (head, mut body) = response.into_parts();
    let mut content = Vec::new();
    while let Some(piece) = body.data().await {
        let piece = piece?;
        body.flow_control().release_capacity(piece.len())?;
        content.extend_from_slice(&piece);
    }
    let text = |value: &http::HeaderValue| value.to_str().expect("fields are ASCII").to_owned();
    let mut fields: Vec<_> = head.headers.iter().map(|(name, value)| (name.as_str().to_owned(), text(value))).collect();
    fields.sort();
    Ok(Answer { status: head.status.as_u16(), fields, content })
}

pub(crate) fn request(method: &str, path: &str, fields: &[(&str, &str)]) -> Request<Vec<u8>> {
    let request = Request::builder().method(method).uri(format!("http://a{path}"));
    fields
        .iter()
        .fold(request, |request, (name, value)| request.header(*name, *value))
        .body(Vec::new())
        .expect("it is valid")
}

const SIZES: [usize; 7] = [0, 13, 5_000, 16_384, 60_000, 300_000, 3_000_000];

fn launch(engine: Engine) -> Launch {
    let launch = Launch::new(engine).argument("--h2c");
    let launch = SIZES.iter().fold(launch, |launch, bytes| launch.file(&format!("{bytes}.bin"), pattern(*bytes, 7)));
    let launch = launch.file("page.html", "<p>hello hello hello hello hello hello</p>\n");
    let launch = launch.file("dir/index.html", "there\n");
    // A file that has just been written has no validators: it may change again without its times telling (20 ms).
    std::thread::sleep(Duration::from_millis(50));
    launch
}

fn files_of_every_size_arrive_whole_on_streams_beside_each_other(engine: Engine) {
    let server = launch(engine).start();
    let mut clients = [(); 3].map(|()| Http2::connect(server.address()));
    for _ in 0..3 {
        for client in &mut clients {
            let requests =
                (0..42).map(|at| request("GET", &format!("/{}.bin", SIZES[at % SIZES.len()]), &[])).collect();
            for (at, answer) in client.ask(requests).into_iter().enumerate() {
                let bytes = SIZES[at % SIZES.len()];
                let answer = answer.unwrap();
                assert_eq!(answer.status, 200);
                assert!(answer.content == pattern(bytes, 7), "{bytes} bytes, of which {} came", answer.content.len());
            }
        }
    }
    server.finish();
}

fn answers_are_those_of_http_1(engine: Engine) {
    let server = launch(engine).start();
    let mut http2 = Http2::connect(server.address());
    let conditions: [&[(&str, &str)]; 7] = [
        &[],
        &[("range", "bytes=2-5")],
        &[("range", "bytes=0-1,4-5")],
        &[("range", "bytes=9999999-")],
        &[("if-modified-since", "Fri, 01 Jan 2100 00:00:00 GMT")],
        &[("if-match", "\"other\"")],
        &[("accept", "application/json")],
    ];
    for path in ["/13.bin", "/300000.bin", "/page.html", "/dir", "/dir/", "/none", "/%zz"] {
        for method in ["GET", "HEAD", "OPTIONS", "DELETE"] {
            for fields in conditions {
                let mut found = http2.ask(vec![request(method, path, fields)]).remove(0).unwrap();
                let mut http1 = server.connect();
                let lines: String = fields.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
                http1.send(format!("{method} {path} HTTP/1.1\r\nHost: a\r\n{lines}\r\n").as_bytes());
                let expected = http1.receive(method != "HEAD").unwrap();
                let what = format!("{method} {path} {fields:?}");
                assert_eq!(found.status, expected.status, "{what}");
                let is_parts = found.fields.iter().any(|(_, value)| value.starts_with("multipart/"));
                found.fields.retain(|(name, value)| name != "date" && !value.starts_with("multipart/"));
                for (name, value) in &found.fields {
                    assert_eq!(expected.field(name), Some(&**value), "{what}: {name}");
                }
                assert_eq!(found.content.len(), expected.content.len(), "{what}");
                // The boundary is made for each answer.
                assert!(is_parts || found.content == expected.content, "{what}");
            }
        }
    }
    server.finish();
}

fn uploads_are_stored_beside_downloads(engine: Engine) {
    let server = launch(engine).argument("--upload").start();
    let mut client = Http2::connect(server.address());
    let uploads = [("/one", 300_000), ("/two", 70_000), ("/three", 1)];
    let mut requests: Vec<_> =
        uploads.iter().map(|(path, bytes)| request("PUT", path, &[]).map(|_| pattern(*bytes, 5))).collect();
    requests.push(request("GET", "/300000.bin", &[]));
    let answers: Vec<Answer> = client.ask(requests).into_iter().map(Result::unwrap).collect();
    assert_eq!(answers.iter().map(|one| one.status).collect::<Vec<_>>(), [201, 201, 201, 200]);
    assert!(answers[3].content == pattern(300_000, 7));
    for (path, bytes) in uploads {
        assert!(client.get(path).content == pattern(bytes, 5), "{path}");
    }
    server.finish();
}

fn a_stream_that_is_taken_back_disturbs_no_other(engine: Engine) {
    let server = launch(engine).start();
    let mut client = Http2::connect(server.address());
    for _ in 0..20 {
        let mut body = client.begin("/3000000.bin");
        body.stream.send_reset(Reason::CANCEL);
        drop(body);
        assert!(client.get("/60000.bin").content == pattern(60_000, 7));
    }
    server.finish();
}

fn what_was_asked_before_the_end_is_answered(engine: Engine) {
    let mut server = launch(engine).start();
    let mut client = Http2::connect(server.address());
    assert_eq!(client.get("/13.bin").status, 200);
    let body = client.begin("/3000000.bin");
    server.signal(Signal::TERM);
    assert!(client.finish(body) == pattern(3_000_000, 7));
    assert!(client.has_ended(), "the end is said in good order");
    assert!(server.wait().success());
}
