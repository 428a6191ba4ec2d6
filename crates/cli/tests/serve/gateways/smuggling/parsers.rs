//! Strict parsers, to which is given what reached an application: all must see the same requests.
//!
//! Owns: what is compared of a request ([`Seen`]). The parsers are `httparse` with a framing of our own, the core's,
//! and h11 where Python has it.

use std::io::Write;
use std::process::{Command, Stdio};

use lamna_proto::gateway::fields::Fields;
use lamna_proto::limits::Limits;
use lamna_proto::message::Request;
use lamna_proto::parse::chunked::ChunkedDecoder;
use lamna_proto::parse::head::{self, Parsed};

/// One request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Seen {
    pub(super) method: String,
    pub(super) target: String,
    /// Names in lower case, in order.
    pub(super) fields: Vec<(String, String)>,
    pub(super) content: Vec<u8>,
}

/// What a parser found on one connection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Reading {
    pub(super) requests: Vec<Seen>,
    /// The connection ended in the middle of another.
    pub(super) is_cut: bool,
}

impl Seen {
    pub(super) fn field(&self, name: &str) -> Option<&str> {
        self.fields.iter().find(|(one, _)| one == name).map(|(_, value)| &**value)
    }

    fn framing(&self) -> Result<Framing, String> {
        let all = |name: &str| self.fields.iter().filter(|(one, _)| one == name).map(|(_, value)| &**value).collect();
        let (lengths, codings): (Vec<&str>, Vec<&str>) = (all("content-length"), all("transfer-encoding"));
        match (&lengths[..], &codings[..]) {
            ([], []) => Ok(Framing::Length(0)),
            ([length], []) if length.bytes().all(|byte| byte.is_ascii_digit()) => {
                length.parse().map(Framing::Length).map_err(|_| format!("Content-Length: {length}"))
            }
            ([], ["chunked"]) => Ok(Framing::Chunks),
            _ => Err(format!("lengths {lengths:?} and codings {codings:?}")),
        }
    }
}

enum Framing {
    Length(usize),
    Chunks,
}

fn text(bytes: &[u8]) -> String {
    bytes.iter().map(|&byte| char::from(byte)).collect()
}

/// A head: a request without its content, and bytes of input.
type Headed = Result<Option<(Seen, usize)>, String>;
/// Content, and bytes of input.
type Contained = Result<Option<(Vec<u8>, usize)>, String>;

/// All requests of a connection. Nothing from a parser means that more is needed.
fn read_all(
    input: &[u8],
    head: impl Fn(&[u8]) -> Headed,
    chunks: impl Fn(&[u8]) -> Contained,
) -> Result<Reading, String> {
    let (mut reading, mut rest) = (Reading::default(), input);
    while !rest.is_empty() {
        let Some((mut seen, bytes)) = head(rest)? else { break };
        let behind = &rest[bytes..];
        let contained = match seen.framing()? {
            Framing::Length(length) => behind.get(..length).map(|content| (content.to_vec(), length)),
            Framing::Chunks => chunks(behind)?,
        };
        let Some((content, length)) = contained else { break };
        seen.content = content;
        reading.requests.push(seen);
        rest = &behind[length..];
    }
    reading.is_cut = !rest.is_empty();
    Ok(reading)
}

pub(super) fn by_httparse(input: &[u8]) -> Result<Reading, String> {
    read_all(input, head_by_httparse, chunks_by_httparse)
}

fn head_by_httparse(input: &[u8]) -> Headed {
    let mut fields = [httparse::EMPTY_HEADER; 256];
    let mut request = httparse::Request::new(&mut fields);
    let bytes = match request.parse(input).map_err(|error| error.to_string())? {
        httparse::Status::Complete(bytes) => bytes,
        httparse::Status::Partial => return Ok(None),
    };
    // It takes lines that end in LF alone, and we do not.
    if input[..bytes].split(|&byte| byte == b'\n').any(|line| !line.is_empty() && !line.ends_with(b"\r")) {
        return Err(format!("a line does not end in CR LF: {}", input[..bytes].escape_ascii()));
    }
    if request.version != Some(1) {
        return Err(format!("version {:?}", request.version));
    }
    let fields = request.headers.iter().map(|one| (one.name.to_ascii_lowercase(), text(one.value)));
    let (method, target) = (request.method.unwrap_or_default(), request.path.unwrap_or_default());
    let seen = Seen { method: method.into(), target: target.into(), fields: fields.collect(), content: Vec::new() };
    Ok(Some((seen, bytes)))
}

fn chunks_by_httparse(input: &[u8]) -> Contained {
    let (mut content, mut at) = (Vec::new(), 0);
    loop {
        let (line, size) = match httparse::parse_chunk_size(&input[at..]).map_err(|error| format!("{error:?}"))? {
            httparse::Status::Complete((line, size)) => (line, size as usize),
            httparse::Status::Partial => return Ok(None),
        };
        if input[at..at + line].contains(&b';') {
            return Err("a chunk extension".to_owned());
        }
        at += line;
        let Some(chunk) = input.get(at..at + size + 2) else { return Ok(None) };
        if !chunk.ends_with(b"\r\n") {
            return Err("a chunk does not end where it says, or there are trailers".to_owned());
        }
        content.extend_from_slice(&chunk[..size]);
        at += size + 2;
        if size == 0 {
            return Ok(Some((content, at)));
        }
    }
}

pub(super) fn by_core(input: &[u8]) -> Result<Reading, String> {
    read_all(input, head_by_core, chunks_by_core)
}

fn head_by_core(input: &[u8]) -> Headed {
    let head = match head::parse(input, &Limits::default()).map_err(|refusal| format!("{refusal:?}"))? {
        Parsed::Complete(head) => head,
        Parsed::Partial => return Ok(None),
    };
    let request = Request { bytes: input, head: &head };
    let fields = Fields::of(request).iter().map(|(name, value)| (text(name).to_ascii_lowercase(), text(value)));
    let (method, target) = (text(request.method_token()), text(request.target()));
    Ok(Some((Seen { method, target, fields: fields.collect(), content: Vec::new() }, usize::from(head.length))))
}

fn chunks_by_core(input: &[u8]) -> Contained {
    let (mut decoder, mut content, mut at) = (ChunkedDecoder::new(0), Vec::new(), 0);
    loop {
        let rest = &input[at..];
        let step = decoder.decode(rest).map_err(|error| format!("{error:?}"))?;
        content.extend_from_slice(&rest[step.content.clone()]);
        at += step.consumed;
        match (step.ended, step.consumed) {
            (true, _) => return Ok(Some((content, at))),
            (false, 0) => return Ok(None),
            (false, _) => {}
        }
    }
}

/// Reads connections, a line of hexadecimal digits each, and writes what each held.
const H11: &str = r#"
import sys, json, h11
for line in sys.stdin:
    connection, requests, cut, error = h11.Connection(h11.SERVER), [], False, None
    connection.receive_data(bytes.fromhex(line))
    try:
        while True:
            event = connection.next_event()
            if event is h11.NEED_DATA:
                left = connection.trailing_data[0]
                cut = cut or len(left) > 0
                break
            if isinstance(event, h11.Request):
                cut = True
                requests.append([event.method.decode(), event.target.decode("latin-1"),
                                 [[name.decode(), value.decode("latin-1")] for name, value in event.headers], ""])
            elif isinstance(event, h11.Data):
                requests[-1][3] += bytes(event.data).hex()
            elif isinstance(event, h11.EndOfMessage):
                cut = False
                connection.send(h11.Response(status_code=200, headers=[("content-length", "0")]))
                connection.send(h11.EndOfMessage())
                if connection.our_state is h11.MUST_CLOSE:
                    error = "it may not go on"
                    break
                connection.start_next_cycle()
    except h11.ProtocolError as problem:
        error = repr(problem)
    if cut and requests and connection.their_state is not h11.IDLE:
        requests.pop()
    print(json.dumps([requests, cut, error]))
"#;

/// Nothing where Python or h11 is missing.
pub(super) fn by_h11(connections: &[Vec<u8>]) -> Option<Vec<Result<Reading, String>>> {
    let mut command = Command::new("python3");
    command.args(["-c", H11]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut python = command.spawn().ok()?;
    let mut input = python.stdin.take()?;
    let lines: String = connections
        .iter()
        .map(|bytes| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>() + "\n")
        .collect();
    let writer = std::thread::spawn(move || input.write_all(lines.as_bytes()));
    let output = python.wait_with_output().ok()?;
    // It has ended early where h11 is missing.
    let _ = writer.join();
    if !output.status.success() {
        return None;
    }
    let lines = String::from_utf8(output.stdout).expect("JSON is text");
    Some(lines.lines().map(|line| told_by_h11(line).expect("it is what the program writes")).collect())
}

type Told = (Vec<(String, String, Vec<(String, String)>, String)>, bool, Option<String>);

fn told_by_h11(line: &str) -> Result<Result<Reading, String>, serde_json::Error> {
    let (requests, is_cut, error): Told = serde_json::from_str(line)?;
    if let Some(error) = error {
        return Ok(Err(error));
    }
    let byte = |text: &str, at: usize| u8::from_str_radix(&text[2 * at..2 * at + 2], 16);
    let seen = |(method, target, fields, content): (String, String, Vec<(String, String)>, String)| Seen {
        method,
        target,
        fields,
        content: (0..content.len() / 2)
            .map(|at| byte(&content, at))
            .collect::<Result<_, _>>()
            .expect("it is in hexadecimal digits"),
    };
    Ok(Ok(Reading { requests: requests.into_iter().map(seen).collect(), is_cut }))
}
