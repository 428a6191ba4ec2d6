//! What must hold of gateways whatever a client asks and an application answers. Run on seeded inputs by `gateway`, and
//! on inputs that look for trouble by the targets in `fuzz/`.
//!
//! Owns: the checks; each panics if what it says does not hold. Does not make inputs.

use std::net::IpAddr;

use lamna_proto::gateway::fields::Fields;
use lamna_proto::gateway::http1::{self, ContentWriter, HostChoice, Outgoing, write_head};
use lamna_proto::gateway::{
    AnswerHead, AnswerStep, Believed, GatewayError, Inbound, Origin, Protocol, RequestContent, cgi, fastcgi, path,
};
use lamna_proto::limits::Limits;
use lamna_proto::message::{Field, Request, Version};
use lamna_proto::parse::chunked::ChunkedDecoder;
use lamna_proto::parse::head::{self, Parsed};
use lamna_proto::parse::target::{self, Target};

/// How a reader found an answer to be.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Transcript {
    /// Heads in order, and redirects.
    heads: Vec<String>,
    content: Vec<u8>,
    diagnostics: Vec<u8>,
    end: Option<Result<(), GatewayError>>,
    reusable: bool,
    left: usize,
}

/// A reader, whatever it reads.
trait Reader {
    fn read<'a>(&'a mut self, input: &'a [u8]) -> Result<AnswerStep<'a>, GatewayError>;
    fn handle_end(&mut self) -> Result<(), GatewayError>;
    fn is_reusable(&self, is_input_left: bool) -> bool;
    fn trailers(&self) -> String {
        String::new()
    }
}

impl Reader for http1::AnswerReader {
    fn read<'a>(&'a mut self, input: &'a [u8]) -> Result<AnswerStep<'a>, GatewayError> {
        self.read(input)
    }
    fn handle_end(&mut self) -> Result<(), GatewayError> {
        self.handle_end()
    }
    fn is_reusable(&self, is_input_left: bool) -> bool {
        self.is_reusable(true, is_input_left)
    }
    fn trailers(&self) -> String {
        text_of(self.trailers().iter())
    }
}

impl Reader for fastcgi::AnswerReader {
    fn read<'a>(&'a mut self, input: &'a [u8]) -> Result<AnswerStep<'a>, GatewayError> {
        self.read(input)
    }
    fn handle_end(&mut self) -> Result<(), GatewayError> {
        self.handle_end()
    }
    fn is_reusable(&self, is_input_left: bool) -> bool {
        self.is_reusable(true, is_input_left)
    }
}

impl Reader for cgi::AnswerReader {
    fn read<'a>(&'a mut self, input: &'a [u8]) -> Result<AnswerStep<'a>, GatewayError> {
        self.read(input)
    }
    fn handle_end(&mut self) -> Result<(), GatewayError> {
        self.handle_end()
    }
    fn is_reusable(&self, _: bool) -> bool {
        false
    }
}

impl Reader for cgi::StreamReader {
    fn read<'a>(&'a mut self, input: &'a [u8]) -> Result<AnswerStep<'a>, GatewayError> {
        self.read(input)
    }
    fn handle_end(&mut self) -> Result<(), GatewayError> {
        self.handle_end()
    }
    fn is_reusable(&self, _: bool) -> bool {
        false
    }
}

fn text_of<'a>(fields: impl Iterator<Item = (&'a [u8], &'a [u8])>) -> String {
    fields.map(|(name, value)| format!(" {}={}", name.escape_ascii(), value.escape_ascii())).collect()
}

fn text(kind: &str, head: &AnswerHead<'_>) -> String {
    for (name, value) in head.fields.iter() {
        assert!(!name.is_empty() && name.iter().all(u8::is_ascii_graphic), "a name that cannot be passed on");
        assert!(!value.iter().any(|byte| matches!(byte, b'\r' | b'\n' | 0)), "a value that cannot be passed on");
        let ours =
            ["connection", "transfer-encoding", "content-length", "keep-alive", "te", "status", "proxy-connection"];
        assert!(
            !ours.iter().any(|ours| kind == "head" && name.eq_ignore_ascii_case(ours.as_bytes())) || name == b"Status"
        );
    }
    let reason = head.reason.escape_ascii();
    format!("{kind} {} {reason} {:?}{}", head.status, head.content_bytes, text_of(head.fields.iter()))
}

/// Reads `input` in pieces of these lengths again and again, after whose last the application closes.
fn transcribe(mut reader: impl Reader, input: &[u8], sizes: &[usize]) -> Transcript {
    let (mut transcript, mut at, mut arrived) = (Transcript::default(), 0, 0);
    let mut sizes = sizes.iter().copied().cycle();
    'arrivals: while arrived < input.len() {
        arrived = (arrived + sizes.next().unwrap_or(input.len()).max(1)).min(input.len());
        loop {
            let visible = &input[at..arrived];
            let consumed = match reader.read(visible) {
                Ok(AnswerStep::Incomplete { consumed }) => {
                    assert!(consumed <= visible.len());
                    at += consumed;
                    continue 'arrivals;
                }
                Ok(AnswerStep::Interim { consumed, head }) => {
                    transcript.heads.push(text("interim", &head));
                    assert!(consumed > 0);
                    consumed
                }
                Ok(AnswerStep::Head { consumed, head }) => {
                    transcript.heads.push(text("head", &head));
                    assert!(consumed > 0);
                    consumed
                }
                Ok(AnswerStep::Switched { consumed, head }) => {
                    transcript.heads.push(text("switched", &head));
                    at += consumed;
                    break 'arrivals;
                }
                Ok(AnswerStep::LocalRedirect { consumed, target }) => {
                    assert!(target.starts_with(b"/") && !target.starts_with(b"//"));
                    transcript.heads.push(format!("local {}", target.escape_ascii()));
                    consumed
                }
                Ok(AnswerStep::Content { consumed, content }) => {
                    assert!(content.end <= consumed && content.start <= content.end);
                    // Or it would go on for ever.
                    assert!(consumed > 0);
                    transcript.content.extend_from_slice(&visible[content]);
                    consumed
                }
                Ok(AnswerStep::Diagnostic { consumed, text }) => {
                    assert!(consumed > 0 && text.end <= consumed);
                    transcript.diagnostics.extend_from_slice(&visible[text]);
                    consumed
                }
                Ok(AnswerStep::Ended { consumed }) => {
                    at += consumed;
                    transcript.end = Some(Ok(()));
                    break 'arrivals;
                }
                Err(error) => {
                    assert_eq!(reader.read(visible).err(), Some(error), "an error stays");
                    transcript.end = Some(Err(error));
                    break 'arrivals;
                }
            };
            assert!(consumed <= visible.len());
            at += consumed;
        }
    }
    transcript.left = input.len() - at;
    if transcript.end.is_none() {
        transcript.end = Some(reader.handle_end());
    } else if transcript.end == Some(Ok(())) {
        transcript.reusable = reader.is_reusable(transcript.left > 0);
        transcript.heads.push(reader.trailers());
    }
    if !matches!(transcript.end, Some(Ok(()))) {
        // How much of what is no answer was given out before that was found depends on when it came.
        (transcript.content, transcript.diagnostics, transcript.left) = Default::default();
    }
    transcript
}

fn independent<R: Reader + Clone>(reader: &R, input: &[u8], sizes: &[usize]) -> Transcript {
    let whole = transcribe(reader.clone(), input, &[usize::MAX / 2]);
    assert_eq!(transcribe(reader.clone(), input, sizes), whole, "in pieces of {sizes:?}: {}", input.escape_ascii());
    if input.len() <= 4_096 {
        assert_eq!(transcribe(reader.clone(), input, &[1]), whole, "byte by byte: {}", input.escape_ascii());
    }
    whole
}

/// However an answer over HTTP/1.1 is divided, it is read the same; a head that is accepted is read likewise by
/// `httparse`.
pub(crate) fn http1_answer(input: &[u8], sizes: &[usize], is_head: bool, upgrades: bool) {
    let upgrade = upgrades.then(|| (*b"websocket").into());
    let reader = http1::AnswerReader::new(http1::Asked { is_head, upgrade });
    independent(&reader, input, sizes);
    if let Ok(
        AnswerStep::Head { consumed, head }
        | AnswerStep::Interim { consumed, head }
        | AnswerStep::Switched { consumed, head },
    ) = reader.clone().read(input)
    {
        let mut fields = vec![httparse::EMPTY_HEADER; 16_384];
        let mut other = httparse::Response::new(&mut fields);
        // httparse knows two versions only, and HTTP/1.1 is what later ones are read as.
        let mut text = input.to_vec();
        text[7] = text[7].min(b'1');
        assert_eq!(other.parse(&text), Ok(httparse::Status::Complete(consumed)), "{}", input.escape_ascii());
        assert_eq!(other.code, Some(head.status));
        let theirs = |name: &[u8]| {
            let all = other.headers.iter().filter(|one| one.name.as_bytes().eq_ignore_ascii_case(name));
            all.map(|one| one.value).collect::<Vec<_>>()
        };
        for (name, value) in head.fields.iter() {
            assert!(theirs(name).contains(&value), "{}", name.escape_ascii());
        }
    }
}

/// However a FastCGI application's answer is divided, it is read the same.
pub(crate) fn fastcgi_answer(input: &[u8], sizes: &[usize], is_head: bool) {
    independent(&fastcgi::AnswerReader::new(is_head, true), input, sizes);
}

/// However a script's output is divided, it is read the same.
pub(crate) fn cgi_answer(input: &[u8], sizes: &[usize], is_head: bool) {
    independent(&cgi::AnswerReader::new(is_head), input, sizes);
    independent(&cgi::StreamReader::new(is_head), input, sizes);
    independent(&cgi::StreamReader::new(is_head), &[b"HTTP/1.1 ", input].concat(), sizes);
}

/// What two strict parsers see of a request.
#[derive(Debug, PartialEq, Eq)]
struct Seen {
    method: Vec<u8>,
    target: Vec<u8>,
    fields: Vec<(Vec<u8>, Vec<u8>)>,
    content: Vec<u8>,
    bytes: usize,
}

/// A request that our parser accepts is written to an application so that two strict parsers see the same: one request,
/// with one host and one framing, and with nothing behind it. Whether it was accepted.
pub(crate) fn forwarded(input: &[u8], content: &[u8]) -> bool {
    let Ok(Parsed::Complete(head)) = head::parse(input, &Limits::default()) else { return false };
    let request = Request { bytes: input, head: &head };
    let Some((inbound_content, authority, path, query)) = judge(request, content.len() as u64) else { return false };
    let mut spelled = Vec::new();
    if path::write(path, &mut spelled).is_err() {
        return false;
    }
    let inbound = Inbound {
        method: request.method_token(),
        path: &spelled,
        query,
        authority,
        fields: Fields::of(request),
        own: Fields::default(),
        content: inbound_content,
        origin: Origin {
            client: Some((IpAddr::from([192, 0, 2, 1]), 9)),
            believed: [Believed::Nothing, Believed::XForwarded, Believed::Forwarded][content.len() % 3],
            behind: Some(IpAddr::from([192, 0, 2, 2])),
            is_secure: false,
            protocol: Protocol::Http11,
        },
    };
    let how = Outgoing {
        host: HostChoice::Client { upstream: b"upstream:3000" },
        forwarded: content.len() % 3 == 1,
        expects_continue: true,
        upgrade: None,
        keep_alive: true,
    };
    let mut sent = Vec::new();
    if write_head(&inbound, &how, &mut sent).is_err() {
        return false;
    }
    append_content(inbound_content, content, &mut sent);
    let length = sent.len();
    sent.extend_from_slice(b"GET /next HTTP/1.1\r\nHost: n\r\n\r\n");
    let (theirs, ours) = (seen_by_httparse(&sent), seen_by_us(&sent));
    assert_eq!(theirs, ours, "{}", sent.escape_ascii());
    assert_eq!(theirs.bytes, length, "the next request begins where this one ends: {}", sent.escape_ascii());
    assert_is_one_request(&theirs, &inbound, content);
    true
}

/// What the connection judges: the framing (RFC 9112 6.3), the host and the target.
#[allow(clippy::type_complexity, reason = "they are the parts of one answer")]
fn judge(request: Request<'_>, bytes: u64) -> Option<(RequestContent, Option<&[u8]>, &[u8], Option<&[u8]>)> {
    let repeated = [Field::Host, Field::ContentLength, Field::TransferEncoding];
    let is_repeated = repeated.iter().any(|field| request.head.repeated.contains(*field));
    let content = match (request.field(Field::TransferEncoding), request.field(Field::ContentLength)) {
        (Some(coding), None) if coding.eq_ignore_ascii_case(b"chunked") => RequestContent::Streamed,
        (None, Some(length)) if !length.is_empty() && length.iter().all(u8::is_ascii_digit) => {
            RequestContent::Sized(bytes)
        }
        (None, None) => RequestContent::None,
        _ => return None,
    };
    let field_host = request.field(Field::Host);
    if is_repeated || (request.head.version == Version::Http11 && field_host.is_none()) {
        return None;
    }
    match target::parse(request.target(), false).ok()? {
        Target::Origin { path, query } => Some((content, field_host, path, query)),
        Target::Absolute { authority, path, query, .. } => Some((content, Some(authority), path, query)),
        Target::Authority(_) | Target::Asterisk => None,
    }
}

fn append_content(announced: RequestContent, content: &[u8], sent: &mut Vec<u8>) {
    let mut writer = ContentWriter::new(announced);
    if announced != RequestContent::None {
        for piece in content.chunks(7) {
            let (before, behind) = writer.piece(piece.len() as u64).expect("as announced");
            sent.extend_from_slice(&[before.as_ref(), piece, behind].concat());
        }
    }
    sent.extend_from_slice(writer.end().expect("as announced").as_ref());
}

fn seen_by_httparse(sent: &[u8]) -> Seen {
    let mut fields = vec![httparse::EMPTY_HEADER; 512];
    let mut request = httparse::Request::new(&mut fields);
    let Ok(httparse::Status::Complete(mut at)) = request.parse(sent) else {
        panic!("httparse refuses {}", sent.escape_ascii())
    };
    assert_eq!(request.version, Some(1));
    let fields: Vec<(Vec<u8>, Vec<u8>)> =
        request.headers.iter().map(|one| (one.name.as_bytes().to_vec(), one.value.to_vec())).collect();
    let (method, target) = (request.method.unwrap_or_default().into(), request.path.unwrap_or_default().into());
    let mut content = Vec::new();
    if let Some(length) = value(&fields, "content-length") {
        let length: usize = std::str::from_utf8(length).expect("text").parse().expect("a number");
        content = sent[at..at + length].to_vec();
        at += length;
    } else if value(&fields, "transfer-encoding").is_some() {
        while let Ok(httparse::Status::Complete((line, size))) = httparse::parse_chunk_size(&sent[at..]) {
            at += line;
            content.extend_from_slice(&sent[at..at + size as usize]);
            at += size as usize;
            assert_eq!(&sent[at..at + 2], b"\r\n");
            at += 2;
            if size == 0 {
                break;
            }
        }
    }
    Seen { method, target, fields, content, bytes: at }
}

fn seen_by_us(sent: &[u8]) -> Seen {
    // As an application that takes anything of any length.
    let limits = Limits { head_bytes_max: 65_535, target_bytes_max: 60_000, fields_max: 512, ..Limits::default() };
    let Ok(Parsed::Complete(head)) = head::parse(sent, &limits) else { panic!("we refuse {}", sent.escape_ascii()) };
    let request = Request { bytes: sent, head: &head };
    let fields: Vec<_> = Fields::of(request).iter().map(|(name, value)| (name.to_vec(), value.to_vec())).collect();
    let mut seen = Seen {
        method: request.method_token().to_vec(),
        target: request.target().to_vec(),
        fields,
        content: Vec::new(),
        bytes: usize::from(head.length),
    };
    if let Some(length) = value(&seen.fields, "content-length") {
        let length: usize = std::str::from_utf8(length).expect("text").parse().expect("a number");
        seen.content = sent[seen.bytes..seen.bytes + length].to_vec();
        seen.bytes += length;
    } else if value(&seen.fields, "transfer-encoding").is_some() {
        let mut decoder = ChunkedDecoder::new(0);
        while !decoder.is_ended() {
            let rest = &sent[seen.bytes..];
            let step = decoder.decode(rest).expect("chunks");
            assert!(step.consumed > 0, "the chunks end");
            seen.content.extend_from_slice(&rest[step.content]);
            seen.bytes += step.consumed;
        }
    }
    seen
}

fn value<'a>(fields: &'a [(Vec<u8>, Vec<u8>)], name: &str) -> Option<&'a [u8]> {
    let mut values = fields.iter().filter(|(other, _)| other.eq_ignore_ascii_case(name.as_bytes()));
    let value = values.next().map(|(_, value)| &value[..]);
    assert!(values.next().is_none(), "{name} stands twice");
    value
}

fn assert_is_one_request(seen: &Seen, asked: &Inbound<'_>, content: &[u8]) {
    assert_eq!(seen.method, asked.method);
    assert!(value(&seen.fields, "host").is_some_and(|host| !host.is_empty()));
    let expected = match asked.content {
        RequestContent::None => &[][..],
        _ => content,
    };
    assert_eq!(seen.content, expected);
    let (length, coding) = (value(&seen.fields, "content-length"), value(&seen.fields, "transfer-encoding"));
    assert!(length.is_none() || coding.is_none());
    assert!(coding.is_none_or(|coding| coding == b"chunked"));
    assert!(value(&seen.fields, "cookie").is_none_or(|cookie| !cookie.contains(&b'\n')));
    for (name, _) in &seen.fields {
        let lower = String::from_utf8_lossy(name).to_lowercase();
        let ours = ["keep-alive", "proxy-connection", "upgrade", "proxy-authorization", "http2-settings"];
        assert!(!ours.contains(&&*lower), "{lower} was passed on");
        let disguised =
            lower.contains('_') && ["content-length", "transfer-encoding", "host"].contains(&&*lower.replace('_', "-"));
        assert!(!disguised, "{lower} was passed on");
    }
}
