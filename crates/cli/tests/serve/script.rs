//! Conversations as text: what is sent, and what has to come back.
//!
//! ```text
//! ## name of the case, what it shows: RFC section
//! > GET / HTTP/1.1            a line that is sent, with CR LF
//! >> raw                      bytes that are sent as they are
//! < 200 OK                    a response; the reason phrase may be left out. `< 200 (head)`: the answer to a HEAD
//! < Name: value               a field of it
//! < !Name                     a field that it must not have
//! = content                   its content; several lines make one
//! =file path 0-9              content of a file of the site, or of a part of it
//! . open                      the connection goes on: another request is answered, and nothing else comes before
//! . closed                    the connection ends, orderly
//! . end                       we send nothing more
//! . together                  this case is about bytes that arrive together: it is not held byte by byte
//! . cold path                 drop the file from the page cache
//! # comment
//! ```
//!
//! In everything sent and expected, `\r \n \t \0 \\ \xHH` stand for bytes, `{name}` for what was remembered, and
//! `{a*99}` for 99 times `a`. In what is expected, `*` stands for anything, and `{?name}` too, and remembers it.

use std::collections::{HashMap, VecDeque};
use std::path::Path;

use crate::client::{Client, Duplex, Response};

/// One conversation.
#[derive(Debug)]
pub(crate) struct Case<'a> {
    /// What it shows.
    pub(crate) name: &'a str,
    /// Where that is said.
    pub(crate) reference: &'a str,
    steps: Vec<Step<'a>>,
}

#[derive(Debug)]
struct Step<'a> {
    line: usize,
    action: Action<'a>,
}

#[derive(Debug)]
enum Action<'a> {
    Send(Vec<String>),
    Receive(Expected<'a>),
    Open,
    Closed,
    EndSending,
    Together,
    Cool(&'a str),
}

#[derive(Clone, Debug, Default)]
struct Expected<'a> {
    status: &'a str,
    has_no_content: bool,
    fields: Vec<(&'a str, Option<&'a str>)>,
    content: Vec<Piece<'a>>,
}

#[derive(Clone, Debug)]
enum Piece<'a> {
    Text(&'a str),
    File(&'a str, Option<(usize, usize)>),
}

/// How bytes are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sending {
    /// What stands together in the script goes together.
    Whole,
    /// One byte at a time.
    Bytes,
}

/// The cases of a script.
pub(crate) fn parse(script: &str) -> Vec<Case<'_>> {
    let mut cases: Vec<Case> = Vec::new();
    for (index, line) in script.lines().enumerate() {
        let number = index + 1;
        if let Some(title) = line.strip_prefix("## ") {
            let (name, reference) = title.rsplit_once(": ").unwrap_or_else(|| panic!("line {number}: no reference"));
            cases.push(Case { name, reference, steps: Vec::new() });
        } else if !line.is_empty() && !line.starts_with('#') {
            let case = cases.last_mut().unwrap_or_else(|| panic!("line {number}: no case"));
            case.add(number, line);
        }
    }
    cases
}

impl<'a> Case<'a> {
    fn add(&mut self, number: usize, line: &'a str) {
        let (sign, rest) = line.split_once(' ').unwrap_or((line, ""));
        match sign {
            ">" => self.send(number, format!("{rest}\\r\\n")),
            ">>" => self.send(number, rest.to_owned()),
            "<" if rest.starts_with(|first: char| first.is_ascii_digit()) => {
                let status = rest.strip_suffix(" (head)");
                let has_no_content = status.is_some();
                let expected = Expected { status: status.unwrap_or(rest), has_no_content, ..Default::default() };
                self.push(number, Action::Receive(expected));
            }
            "<" => self.expected(number).fields.push(match rest.split_once(':') {
                Some((name, value)) => (name, Some(value.trim_start())),
                None => (rest.strip_prefix('!').unwrap_or_else(|| panic!("line {number}: no field")), None),
            }),
            "=" => self.expected(number).content.push(Piece::Text(rest)),
            "=file" => self.expected(number).content.push(file_piece(rest)),
            "." => self.push(
                number,
                match rest.split_once(' ').unwrap_or((rest, "")) {
                    ("open", "") => Action::Open,
                    ("closed", "") => Action::Closed,
                    ("end", "") => Action::EndSending,
                    ("together", "") => Action::Together,
                    ("cold", path) => Action::Cool(path),
                    _ => panic!("line {number}: unknown step"),
                },
            ),
            _ => panic!("line {number}: unknown sign"),
        }
    }

    fn push(&mut self, line: usize, action: Action<'a>) {
        self.steps.push(Step { line, action });
    }

    /// What stands in lines that follow each other is sent at once.
    fn send(&mut self, number: usize, text: String) {
        match self.steps.last_mut() {
            Some(Step { action: Action::Send(texts), .. }) => texts.push(text),
            _ => self.push(number, Action::Send(vec![text])),
        }
    }

    fn expected(&mut self, number: usize) -> &mut Expected<'a> {
        match self.steps.last_mut() {
            Some(Step { action: Action::Receive(expected), .. }) => expected,
            _ => panic!("line {number}: no response to expect this of"),
        }
    }

    /// Whether it can be held in this way.
    pub(crate) fn can_be_sent(&self, sending: Sending) -> bool {
        let together = self.steps.iter().any(|step| matches!(step.action, Action::Together));
        sending == Sending::Whole || !together
    }

    /// Holds the conversation. `site` is where files are.
    ///
    /// # Errors
    /// Where it went another way, and how.
    pub(crate) fn run<S: Duplex>(&self, mut client: Client<S>, site: &Path, sending: Sending) -> Result<(), String> {
        let mut memory = HashMap::new();
        for step in &self.steps {
            let result = step.run(&mut client, site, sending, &mut memory);
            result.map_err(|fault| format!("line {}: {fault}", step.line))?;
        }
        Ok(())
    }
}

/// A request without its syntax, as every version of HTTP can say it.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    /// The method.
    pub(crate) method: String,
    /// Path and query, as they are sent.
    pub(crate) target: String,
    /// Whom it is asked of.
    pub(crate) host: String,
    /// The other fields.
    pub(crate) fields: Vec<(String, String)>,
    /// The content.
    pub(crate) content: Vec<u8>,
}

/// Fields that are about the syntax or the connection of HTTP/1.
const OF_HTTP_1: [&str; 8] =
    ["connection", "keep-alive", "transfer-encoding", "te", "trailer", "upgrade", "expect", "http2-settings"];

impl Asked {
    /// The request at the front of `bytes`, and what follows. None if there is something in it that only HTTP/1 can
    /// say.
    fn take(bytes: &[u8]) -> Option<(Asked, &[u8])> {
        let end = bytes.windows(4).position(|four| four == b"\r\n\r\n")?;
        let (head, rest) = (std::str::from_utf8(&bytes[..end]).ok()?, &bytes[end + 4..]);
        let mut lines = head.split("\r\n");
        let mut words = lines.next()?.split(' ');
        let (method, target, version) = (words.next()?, words.next()?, words.next()?);
        if words.next().is_some() || version != "HTTP/1.1" || !target.starts_with('/') || method == "CONNECT" {
            return None;
        }
        // What is malformed is no request of HTTP/2 (RFC 9113 8.1.1), and other clients cannot say it.
        let is_method = method.len() <= 17 && method.bytes().all(|byte| byte.is_ascii_alphabetic() || byte == b'-');
        if !is_method || target.parse::<http::Uri>().is_err() || target.contains('#') {
            return None;
        }
        let (mut hosts, mut fields, mut length) = (Vec::new(), Vec::new(), 0);
        for line in lines {
            let (name, value) = line.split_once(':')?;
            let (name, value) = (name.to_ascii_lowercase(), value.trim_matches([' ', '\t']).to_owned());
            let is_token = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
            if !is_token || OF_HTTP_1.contains(&&*name) || value.bytes().any(|byte| byte.is_ascii_control()) {
                return None;
            }
            match &*name {
                "host" => hosts.push(value),
                "content-length" => length = value.parse().ok()?,
                _ => fields.push((name, value)),
            }
        }
        let [host] = <[String; 1]>::try_from(hosts).ok()?;
        let is_host =
            !host.is_empty() && host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".:-".contains(&byte));
        if !is_host || rest.len() < length {
            return None;
        }
        let (content, rest) = rest.split_at(length);
        let (method, target, content) = (method.to_owned(), target.to_owned(), content.to_vec());
        Some((Asked { method, target, host, fields, content }, rest))
    }

    fn all(texts: &[String], memory: &HashMap<String, String>) -> Option<Vec<Asked>> {
        let bytes: Vec<u8> = texts.iter().flat_map(|text| fill_in(text, memory)).collect();
        let (mut rest, mut all) = (&bytes[..], Vec::new());
        while !rest.is_empty() {
            let (asked, behind) = Asked::take(rest)?;
            all.push(asked);
            rest = behind;
        }
        Some(all)
    }
}

impl Case<'_> {
    /// Whether it says nothing that only HTTP/1 can say, and each of its requests is answered.
    pub(crate) fn is_of_every_version(&self) -> bool {
        let (mut asked, mut answered) = (0, 0);
        for step in &self.steps {
            match &step.action {
                Action::Send(texts) => match Asked::all(texts, &HashMap::new()) {
                    Some(all) if asked == answered => asked += all.len(),
                    _ => return false,
                },
                Action::Receive(expected) if !expected.status.starts_with('1') => answered += 1,
                Action::Receive(_) | Action::EndSending => return false,
                Action::Open | Action::Closed | Action::Together | Action::Cool(_) => {}
            }
        }
        asked == answered && asked > 0
    }

    /// Asks what is asked in it, one request after the other, by `ask`, which is told whether the answer has content.
    /// Returns what was answered. What is said of the connection is left out.
    ///
    /// # Errors
    /// Where it went another way, and how.
    pub(crate) fn run_by(
        &self,
        site: &Path,
        mut ask: impl FnMut(&Asked, bool) -> Result<Response, String>,
    ) -> Result<Vec<Response>, String> {
        let (mut memory, mut waiting, mut all) = (HashMap::new(), VecDeque::new(), Vec::new());
        for step in &self.steps {
            match &step.action {
                Action::Send(texts) => waiting.extend(Asked::all(texts, &memory).expect("it was looked at before")),
                Action::Receive(expected) => {
                    let asked = waiting.pop_front().expect("it was looked at before");
                    let mut response = ask(&asked, !expected.has_no_content)?;
                    if response.reason.is_empty() {
                        // HTTP/2 has none.
                        response.reason = expected.status.split_once(' ').map_or("", |(_, reason)| reason).to_owned();
                    }
                    let checked = expected.without_connection().check(&response, site, &mut memory);
                    checked.map_err(|fault| format!("line {}: {fault}\n    {}", step.line, show(&response)))?;
                    all.push(response);
                }
                Action::Cool(path) => cool(&site.join(path)),
                Action::Open | Action::Closed | Action::EndSending | Action::Together => {}
            }
        }
        Ok(all)
    }
}

fn file_piece(words: &str) -> Piece<'_> {
    let (path, range) = words.split_once(' ').map_or((words, None), |(path, range)| (path, Some(range)));
    let range = range.map(|range| {
        let (first, last) = range.split_once('-').expect("a range has a dash");
        (first.parse().expect("a number"), last.parse().expect("a number"))
    });
    Piece::File(path, range)
}

impl Step<'_> {
    fn run<S: Duplex>(
        &self,
        client: &mut Client<S>,
        site: &Path,
        sending: Sending,
        memory: &mut HashMap<String, String>,
    ) -> Result<(), String> {
        match &self.action {
            Action::Send(texts) => {
                let bytes: Vec<u8> = texts.iter().flat_map(|text| fill_in(text, memory)).collect();
                match sending {
                    Sending::Whole => client.send(&bytes),
                    Sending::Bytes => client.send_slowly(&bytes),
                }
                Ok(())
            }
            Action::Receive(expected) => {
                let response = client.receive(!expected.has_no_content)?;
                let checked = response.check().and_then(|()| expected.check(&response, site, memory));
                checked.map_err(|fault| format!("{fault}\n    {}", show(&response)))
            }
            Action::Open => {
                let response = client.get(PROBE)?;
                let as_expected = response.status == 200 && response.content == PROBE_CONTENT;
                as_expected
                    .then_some(())
                    .ok_or_else(|| format!("the next request was answered with {}", show(&response)))
            }
            Action::Closed => client.expect_end(),
            Action::EndSending => {
                client.end_sending();
                Ok(())
            }
            Action::Together => Ok(()),
            Action::Cool(path) => {
                cool(&site.join(path));
                Ok(())
            }
        }
    }
}

/// What is asked for to see whether a connection goes on.
pub(crate) const PROBE: &str = "/probe.txt";
/// What it contains.
pub(crate) const PROBE_CONTENT: &[u8] = b"still here\n";

/// Drops a file from the page cache.
pub(crate) fn cool(path: &Path) {
    let file = std::fs::File::open(path).expect("the site has this file");
    file.sync_all().expect("a file can be written back");
    rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).expect("a file can be dropped");
}

fn show(response: &Response) -> String {
    let content = String::from_utf8_lossy(&response.content[..response.content.len().min(300)]).into_owned();
    format!("{} {} {:?} {content:?}", response.status, response.reason, response.fields)
}

impl<'a> Expected<'a> {
    /// The same without what is said of the connection.
    fn without_connection(&self) -> Expected<'a> {
        let mut expected = self.clone();
        expected.fields.retain(|(name, _)| !OF_HTTP_1.contains(&&*name.to_ascii_lowercase()));
        expected
    }

    fn check(&self, response: &Response, site: &Path, memory: &mut HashMap<String, String>) -> Result<(), String> {
        let status = format!("{} {}", response.status, response.reason);
        if status != self.status && status.split(' ').next() != Some(self.status) {
            return Err(format!("expected {}", self.status));
        }
        for (name, value) in &self.fields {
            match (value, response.field(name)) {
                (None, None) => {}
                (Some(expected), Some(value)) => {
                    if !matches(expected, value.as_bytes(), memory) {
                        return Err(format!("expected {name}: {expected}"));
                    }
                }
                (None, Some(_)) => return Err(format!("expected no {name}")),
                (Some(_), None) => return Err(format!("expected {name}")),
            }
        }
        match &self.content[..] {
            [] => Ok(()),
            [Piece::Text(pattern)] if matches(pattern, &response.content, memory) => Ok(()),
            [Piece::Text(pattern)] => Err(format!("expected content {pattern:?}")),
            pieces => {
                let bytes = pieces.iter().map(|piece| piece.bytes(site, memory)).collect::<Vec<_>>().concat();
                if bytes == response.content {
                    return Ok(());
                }
                match bytes.iter().zip(&response.content).position(|(one, other)| one != other) {
                    Some(at) => Err(format!("expected other content from byte {at} on")),
                    None => Err(format!("expected {} bytes, got {}", bytes.len(), response.content.len())),
                }
            }
        }
    }
}

impl Piece<'_> {
    fn bytes(&self, site: &Path, memory: &HashMap<String, String>) -> Vec<u8> {
        match self {
            Piece::Text(text) => fill_in(text, memory),
            Piece::File(path, range) => {
                let content = std::fs::read(site.join(path)).expect("the site has this file");
                match range {
                    None => content,
                    Some((first, last)) => content[*first..=*last].to_vec(),
                }
            }
        }
    }
}

/// A part of an expected text.
#[derive(Clone, Debug, PartialEq)]
enum Token {
    Byte(u8),
    Anything(Option<String>),
}

fn fill_in(text: &str, memory: &HashMap<String, String>) -> Vec<u8> {
    // In what is sent, a star is a star.
    tokens(text, memory)
        .into_iter()
        .map(|token| match token {
            Token::Byte(byte) => byte,
            Token::Anything(_) => b'*',
        })
        .collect()
}

fn matches(pattern: &str, bytes: &[u8], memory: &mut HashMap<String, String>) -> bool {
    let tokens = tokens(pattern, memory);
    let mut found = Vec::new();
    let matched = match_tokens(&tokens, bytes, &mut found);
    for (name, value) in found {
        memory.insert(name, String::from_utf8_lossy(value).into_owned());
    }
    matched
}

fn match_tokens<'b>(tokens: &[Token], bytes: &'b [u8], found: &mut Vec<(String, &'b [u8])>) -> bool {
    match tokens {
        [] => bytes.is_empty(),
        [Token::Byte(byte), rest @ ..] => bytes.first() == Some(byte) && match_tokens(rest, &bytes[1..], found),
        [Token::Anything(name), rest @ ..] => {
            // Looking ahead one byte keeps the search from being quadratic in long contents.
            let may_end = |end: &usize| match rest.first() {
                Some(Token::Byte(byte)) => bytes.get(*end) == Some(byte),
                _ => true,
            };
            let end = (0..=bytes.len()).filter(may_end).find(|&end| match_tokens(rest, &bytes[end..], found));
            if let (Some(name), Some(end)) = (name, end) {
                found.push((name.clone(), &bytes[..end]));
            }
            end.is_some()
        }
    }
}

fn tokens(text: &str, memory: &HashMap<String, String>) -> Vec<Token> {
    let mut tokens = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let (length, piece) = match first {
            '\\' => escape(rest),
            '{' => brace(rest, memory).unwrap_or((1, vec![Token::Byte(b'{')])),
            '*' => (1, vec![Token::Anything(None)]),
            other => (other.len_utf8(), other.to_string().bytes().map(Token::Byte).collect()),
        };
        tokens.extend(piece);
        rest = &rest[length..];
    }
    tokens
}

fn escape(text: &str) -> (usize, Vec<Token>) {
    let byte = |byte| vec![Token::Byte(byte)];
    match text.as_bytes().get(1) {
        Some(b'r') => (2, byte(b'\r')),
        Some(b'n') => (2, byte(b'\n')),
        Some(b't') => (2, byte(b'\t')),
        Some(b'0') => (2, byte(0)),
        Some(&itself @ (b'\\' | b'"')) => (2, byte(itself)),
        Some(b'x') => (4, byte(u8::from_str_radix(&text[2..4], 16).expect("two hexadecimal digits"))),
        other => panic!("unknown escape {other:?} in {text:?}"),
    }
}

/// `{name}`, `{?name}` or `{a*99}`; nothing if the brace is only a brace.
fn brace(text: &str, memory: &HashMap<String, String>) -> Option<(usize, Vec<Token>)> {
    let end = text.find('}')?;
    let inner = &text[1..end];
    if let Some(name) = inner.strip_prefix('?') {
        return Some((end + 1, vec![Token::Anything(Some(name.to_owned()))]));
    }
    if let Some((what, count)) = inner.rsplit_once('*') {
        let count: usize = count.parse().ok()?;
        return Some((end + 1, tokens(&what.repeat(count), memory)));
    }
    memory.get(inner).map(|value| (end + 1, value.bytes().map(Token::Byte).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_escape_and_remember() {
        let mut memory = HashMap::new();
        assert!(matches("a; b={?b}", b"a; b=\"x\"", &mut memory));
        assert_eq!(fill_in("-{b}-\\r\\n{ab*2}{", &memory), b"-\"x\"-\r\nabab{");
        assert!(matches("*b*", b"abc", &mut memory));
        assert!(!matches("*d*", b"abc", &mut memory));
        assert!(!matches("ab", b"abc", &mut memory));
    }

    #[test]
    fn lines_that_are_sent_together_are_one_step() {
        let cases = parse("## a thing: RFC 1\n> GET\n>> x\n< 200 OK\n< A: b\n= c\n. open\n");
        assert_eq!((cases[0].name, cases[0].reference, cases[0].steps.len()), ("a thing", "RFC 1", 3));
    }
}
