//! `multipart/form-data` (RFC 7578, RFC 2046 5.1), taken apart as it arrives.
//!
//! Owns: [`Parser`], a state machine over pieces of content. Guarantees: the outcome does not depend on how the content
//! is divided; what is held is bounded whatever is sent. Knows no files.

/// Takes a form apart. Keeps what may be the beginning of a delimiter, and the fields of a part, until more arrives.
#[derive(Debug)]
pub(super) struct Parser {
    state: State,
    /// CR LF, two hyphens and the boundary.
    delimiter: Vec<u8>,
    /// Arrived and not taken.
    held: Vec<u8>,
    parts: usize,
}

/// ```text
///  Preamble --delimiter--> AfterDelimiter --CR LF--> Fields --empty line--> Content --delimiter--> AfterDelimiter
///                                |
///                               "--"
///                                v
///                             Epilogue
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Preamble,
    AfterDelimiter,
    Fields,
    Content,
    Epilogue,
}

/// An event of the parser.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Event<'a> {
    /// A part begins; with the name of its file, if it is one.
    Begin(Option<Vec<u8>>),
    /// Content of the part.
    Content(&'a [u8]),
    /// The part has ended.
    End,
}

/// The content is not a form, or is beyond the bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Malformed;

/// Bytes of the fields of one part.
const FIELDS_BYTES_MAX: usize = 4 * 1024;
/// Parts of one form.
const PARTS_MAX: usize = 1_000;
/// RFC 2046 5.1.1.
const BOUNDARY_BYTES_MAX: usize = 70;

/// The boundary in the value of a Content-Type field; none if it is not a form's.
pub(in crate::content) fn boundary(content_type: &[u8]) -> Option<Vec<u8>> {
    let (media_type, parameters) = content_type.split_at(memchr::memchr(b';', content_type)?);
    if !media_type.trim_ascii().eq_ignore_ascii_case(b"multipart/form-data") {
        return None;
    }
    let boundary = parameter(&parameters[1..], b"boundary")?;
    (1..=BOUNDARY_BYTES_MAX).contains(&boundary.len()).then_some(boundary)
}

impl Parser {
    /// For a form with this boundary.
    pub(super) fn new(boundary: &[u8]) -> Parser {
        // The first delimiter may stand at the very beginning.
        Parser { state: State::Preamble, delimiter: [b"\r\n--", boundary].concat(), held: b"\r\n".to_vec(), parts: 0 }
    }

    /// Takes `content` and tells `handle` what is in it.
    ///
    /// # Errors
    /// It is malformed, or what `handle` says.
    pub(super) fn take<E: From<Malformed>>(
        &mut self,
        content: &[u8],
        handle: &mut impl FnMut(Event<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        self.held.extend_from_slice(content);
        let held = std::mem::take(&mut self.held);
        let mut rest = &held[..];
        while let Some(after) = self.step(rest, handle)? {
            rest = after;
        }
        let taken = held.len() - rest.len();
        self.held = held;
        self.held.drain(..taken);
        Ok(())
    }

    /// Whether the last delimiter has been found.
    pub(super) fn is_over(&self) -> bool {
        self.state == State::Epilogue
    }

    /// Takes what is at the start of `held`; what follows it, or nothing if more has to arrive.
    fn step<'h, E: From<Malformed>>(
        &mut self,
        held: &'h [u8],
        handle: &mut impl FnMut(Event<'_>) -> Result<(), E>,
    ) -> Result<Option<&'h [u8]>, E> {
        match self.state {
            State::Preamble | State::Content => self.find_delimiter(held, handle),
            State::AfterDelimiter => Ok(self.after_delimiter(held)?),
            State::Fields => {
                let Some((name, rest)) = self.fields(held)? else { return Ok(None) };
                handle(Event::Begin(name))?;
                Ok(Some(rest))
            }
            State::Epilogue => Ok((!held.is_empty()).then(|| &held[held.len()..])),
        }
    }

    fn find_delimiter<'h, E>(
        &mut self,
        held: &'h [u8],
        handle: &mut impl FnMut(Event<'_>) -> Result<(), E>,
    ) -> Result<Option<&'h [u8]>, E> {
        let found = memchr::memmem::find(held, &self.delimiter);
        // Without it, as much is content as cannot be its beginning.
        let content_end = found.unwrap_or_else(|| held.len().saturating_sub(self.delimiter.len() - 1));
        let is_content = self.state == State::Content;
        if is_content && content_end > 0 {
            handle(Event::Content(&held[..content_end]))?;
        }
        if found.is_none() {
            return Ok((content_end > 0).then(|| &held[content_end..]));
        }
        if is_content {
            handle(Event::End)?;
        }
        self.state = State::AfterDelimiter;
        Ok(Some(&held[content_end + self.delimiter.len()..]))
    }

    /// White space may follow a delimiter on its line (RFC 2046 5.1.1).
    fn after_delimiter<'h>(&mut self, held: &'h [u8]) -> Result<Option<&'h [u8]>, Malformed> {
        if held.starts_with(b"--") {
            self.state = State::Epilogue;
            return Ok(Some(&held[2..]));
        }
        match memchr::memmem::find(held, b"\r\n") {
            Some(end) if held[..end].iter().all(|byte| matches!(byte, b' ' | b'\t')) => {
                self.state = State::Fields;
                self.parts += 1;
                // The end of the line is left: an empty line ends the fields, also if there are none.
                if self.parts > PARTS_MAX { Err(Malformed) } else { Ok(Some(&held[end..])) }
            }
            None if held.len() <= FIELDS_BYTES_MAX => Ok(None),
            _ => Err(Malformed),
        }
    }

    /// The name of the file, if the part is one, and what follows the fields.
    #[expect(clippy::type_complexity, reason = "three things that are there or not")]
    fn fields<'h>(&mut self, held: &'h [u8]) -> Result<Option<(Option<Vec<u8>>, &'h [u8])>, Malformed> {
        match memchr::memmem::find(held, b"\r\n\r\n") {
            Some(end) if end <= FIELDS_BYTES_MAX => {
                self.state = State::Content;
                Ok(Some((file_name(&held[..end]), &held[end + 4..])))
            }
            None if held.len() <= FIELDS_BYTES_MAX + 4 => Ok(None),
            _ => Err(Malformed),
        }
    }
}

/// The name of the file in the fields of a part (RFC 7578 4.2), without the directories that some clients send.
fn file_name(fields: &[u8]) -> Option<Vec<u8>> {
    let disposition = fields.split(|byte| *byte == b'\n').filter_map(|line| {
        let (name, value) = line.split_at(memchr::memchr(b':', line)?);
        name.trim_ascii().eq_ignore_ascii_case(b"content-disposition").then(|| value[1..].trim_ascii())
    });
    let value = disposition.reduce(|_, last| last)?;
    let parameters = &value[memchr::memchr(b';', value)? + 1..];
    let name = parameter(parameters, b"filename")?;
    let base = name.rsplit(|byte| matches!(byte, b'/' | b'\\')).next().unwrap_or_default();
    Some(base.to_vec())
}

/// The value of the parameter `name` in `name=value; name="value"`.
fn parameter(mut rest: &[u8], name: &[u8]) -> Option<Vec<u8>> {
    loop {
        rest = rest.trim_ascii_start();
        let end = rest.iter().position(|byte| matches!(byte, b'=' | b';'))?;
        if rest[end] == b';' {
            rest = &rest[end + 1..];
            continue;
        }
        let (value, after) = value_at(&rest[end + 1..])?;
        if rest[..end].trim_ascii().eq_ignore_ascii_case(name) {
            return Some(value);
        }
        rest = after.trim_ascii_start().strip_prefix(b";")?;
    }
}

/// A token or quoted string, and what follows it. A backslash is one, unless a quote follows it: that is how browsers
/// write the names of files.
fn value_at(text: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    let text = text.trim_ascii_start();
    let Some(quoted) = text.strip_prefix(b"\"") else {
        let end = text.iter().position(|byte| *byte == b';').unwrap_or(text.len());
        return Some((text[..end].trim_ascii().to_vec(), &text[end..]));
    };
    let mut value = Vec::new();
    let mut at = 0;
    loop {
        match (quoted.get(at)?, quoted.get(at + 1)) {
            (b'"', _) => return Some((value, &quoted[at + 1..])),
            (b'\\', Some(b'"')) => {
                value.push(b'"');
                at += 2;
            }
            (byte, _) => {
                value.push(*byte);
                at += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const FORM: &[u8] = b"ignored\r\n--xyz\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\nvalue\r\n\
        --xyz \r\ncontent-disposition: form-data; name=\"f\"; filename=\"C:\\dir\\one.txt\"\r\nContent-Type: text/plain\r\n\r\n\
        first\r\n--xy\r\nstill\r\n--xyz\r\nContent-Disposition: form-data; filename=\"\\\"two\\\"\"\r\n\r\n\r\n--xyz--\r\nignored";

    type Parts = Vec<(Option<String>, String)>;

    fn parts(pieces: &[&[u8]]) -> Result<Parts, Malformed> {
        let mut parser = Parser::new(b"xyz");
        let mut parts: Parts = Vec::new();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        for piece in pieces {
            parser.take(piece, &mut |event| {
                match event {
                    Event::Begin(name) => parts.push((name.map(|name| text(&name)), String::new())),
                    Event::Content(content) => parts.last_mut().unwrap().1.push_str(&text(content)),
                    Event::End => {}
                }
                Ok::<(), Malformed>(())
            })?;
        }
        if parser.is_over() { Ok(parts) } else { Err(Malformed) }
    }

    fn expected() -> Parts {
        let part = |name: Option<&str>, content: &str| (name.map(str::to_owned), content.to_owned());
        vec![part(None, "value"), part(Some("one.txt"), "first\r\n--xy\r\nstill"), part(Some("\"two\""), "")]
    }

    #[test]
    fn a_form_is_taken_apart() {
        assert_eq!(parts(&[FORM]), Ok(expected()));
        assert_eq!(parts(&[b"--xyz--"]), Ok(Vec::new()));
    }

    #[test]
    fn a_form_that_is_cut_off_or_malformed_is_none() {
        let end = FORM.len() - b"--\r\nignored".len();
        assert_eq!(parts(&[&FORM[..end]]), Err(Malformed));
        assert_eq!(parts(&[b"--xyz nonsense\r\n\r\n--xyz--"]), Err(Malformed));
        assert_eq!(parts(&[b"--xyz\r\n", &vec![b'a'; FIELDS_BYTES_MAX + 10]]), Err(Malformed));
        assert_eq!(parts(&[&b"--xyz\r\n\r\n\r\n".repeat(PARTS_MAX + 1)]), Err(Malformed));
    }

    #[test]
    fn a_boundary_is_found_in_the_type_of_a_form_only() {
        assert_eq!(boundary(b"multipart/form-data; boundary=\"a b\""), Some(b"a b".to_vec()));
        assert_eq!(boundary(b"Multipart/Form-Data;charset=x;boundary=--a"), Some(b"--a".to_vec()));
        assert_eq!((boundary(b"text/plain; boundary=a"), boundary(b"multipart/form-data; boundary=")), (None, None));
    }

    #[test]
    fn parameters_are_found_whatever_stands_around_them() {
        let find = |text: &str| parameter(text.as_bytes(), b"filename").map(|value| String::from_utf8(value).unwrap());
        assert_eq!(find(" name=\"a;filename=b\"; filename=\"c\""), Some("c".to_owned()));
        assert_eq!(find("FileName = c ; x=y"), Some("c".to_owned()));
        assert_eq!(find("filename=\"a\\\"b\\c\""), Some("a\"b\\c".to_owned()));
        assert_eq!((find("filename=\"a"), find("name=a"), find("filename")), (None, None, None));
    }

    proptest! {
        #[test]
        fn any_division_of_a_form_gives_the_same_parts(cuts in prop::collection::vec(0..FORM.len(), 0..12)) {
            let mut cuts = cuts;
            cuts.sort_unstable();
            let mut pieces = Vec::new();
            let mut start = 0;
            for cut in cuts {
                pieces.push(&FORM[start..cut]);
                start = cut;
            }
            pieces.push(&FORM[start..]);
            prop_assert_eq!(parts(&pieces), Ok(expected()));
        }

        #[test]
        fn any_bytes_are_survived_and_little_is_held(pieces in prop::collection::vec(prop::collection::vec(
            prop_oneof![Just(b'\r'), Just(b'\n'), Just(b'-'), Just(b'x'), Just(b'y'), Just(b'z'), any::<u8>()], 0..300), 0..20))
        {
            let mut parser = Parser::new(b"xyz");
            for piece in &pieces {
                if parser.take(piece, &mut |_| Ok::<(), Malformed>(())).is_err() {
                    break;
                }
                prop_assert!(parser.held.len() <= FIELDS_BYTES_MAX + 4);
            }
        }
    }
}
