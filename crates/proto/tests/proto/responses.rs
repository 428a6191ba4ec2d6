//! Reading the server's output back, with another parser than ours.
//!
//! Owns: a client's view of a sequence of responses (RFC 9112 6.3). Does not judge what they say.

/// A response as a client sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Response {
    pub(crate) status: u16,
    pub(crate) fields: Vec<(String, String)>,
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
        None => panic!("no length: {response:?}"),
    };
    response.content = output.get(head_length..head_length + length)?.to_vec();
    Some((response, head_length + length))
}
