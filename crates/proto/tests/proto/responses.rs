//! Reading the server's output back, with another parser than ours.
//!
//! Owns: a client's view of a sequence of responses (RFC 9112 6.3). Does not judge what they say.

/// A response as a client sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Response {
    pub(crate) status: u16,
    pub(crate) fields: Fields,
    pub(crate) content: Vec<u8>,
}

impl Response {
    /// The value of a field that stands at most once.
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        let mut values = self.fields.iter().filter(|(other, _)| other.eq_ignore_ascii_case(name));
        let value = values.next().map(|(_, value)| value.as_str());
        assert!(values.next().is_none(), "{name} stands twice in {self:?}");
        value
    }
}

/// The complete final responses at the start of `output`, and the bytes that are left. `is_head` says whether the
/// request that the n-th response answers was HEAD.
///
/// # Panics
/// If the output is not a sequence of responses.
pub(crate) fn read(mut output: &[u8], is_head: impl Fn(usize) -> bool) -> (Vec<Response>, &[u8]) {
    let mut responses = Vec::new();
    while let Some((response, length)) = read_one(output, is_head(responses.len())) {
        output = &output[length..];
        if response.status >= 200 {
            responses.push(response);
        }
    }
    (responses, output)
}

fn read_one(output: &[u8], is_head: bool) -> Option<(Response, usize)> {
    let mut fields = [httparse::EMPTY_HEADER; 32];
    let mut parsed = httparse::Response::new(&mut fields);
    let head_length = match parsed.parse(output) {
        Ok(httparse::Status::Complete(length)) => length,
        Ok(httparse::Status::Partial) => return None,
        Err(error) => panic!("{error} in {:?}", String::from_utf8_lossy(output)),
    };
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let fields = parsed.headers.iter().map(|field| (field.name.to_string(), text(field.value))).collect();
    let status = parsed.code.expect("a complete response has a status");
    let mut response = Response { status, fields, content: Vec::new() };
    let length = match response.field("content-length") {
        _ if is_head || status < 200 || status == 204 || status == 304 => 0,
        Some(length) => length.parse().expect("Content-Length is a number"),
        None if response.field("transfer-encoding") == Some("chunked") => {
            let (content, trailers, length) = unchunk(&output[head_length..])?;
            response.content = content;
            response.fields.extend(trailers);
            return Some((response, head_length + length));
        }
        // It ends with the connection.
        None if response.field("connection") == Some("close") => output.len() - head_length,
        None => panic!("no length: {response:?}"),
    };
    response.content = output.get(head_length..head_length + length)?.to_vec();
    Some((response, head_length + length))
}

/// Names and values.
type Fields = Vec<(String, String)>;

/// The content of chunks (RFC 9112 7.1), the trailer fields, and how long all of it is; none if it is not whole.
fn unchunk(output: &[u8]) -> Option<(Vec<u8>, Fields, usize)> {
    let (mut content, mut trailers, mut at) = (Vec::new(), Vec::new(), 0);
    let line = |at: &mut usize| {
        let length = output[*at..].windows(2).position(|pair| pair == b"\r\n")?;
        let line = String::from_utf8_lossy(&output[*at..*at + length]).into_owned();
        *at += length + 2;
        Some(line)
    };
    loop {
        let size = usize::from_str_radix(&line(&mut at)?, 16).expect("a chunk begins with its size");
        if size == 0 {
            break;
        }
        content.extend_from_slice(output.get(at..at + size)?);
        at += size;
        assert_eq!(output.get(at..at + 2)?, b"\r\n", "a chunk ends with its line");
        at += 2;
    }
    loop {
        match line(&mut at)? {
            text if text.is_empty() => return Some((content, trailers, at)),
            text => {
                let (name, value) = text.split_once(": ").expect("a trailer is a field");
                trailers.push((name.to_owned(), value.to_owned()));
            }
        }
    }
}
