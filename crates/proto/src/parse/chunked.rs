//! The chunked transfer coding, taken apart as it arrives (RFC 9112 7.1).
//!
//! Guarantees: what two readers could understand differently is an error, because a request that a proxy and a server
//! delimit differently smuggles another one in. Hence: CR LF and nothing else ends a line; a size is 1 to 16
//! hexadecimal digits; an extension is `name`, `name=token` or `name="quoted string"` and ends on its line. The outcome
//! does not depend on how the input is divided. Extensions and trailer fields are checked, counted and dropped (7.1.1
//! and 7.1.2 allow it).
//!
//! Does not copy content or bound its length: the caller takes the ranges and adds them up.

mod encoding;

use std::fmt;
use std::ops::Range;

use super::list;

/// The state between two pieces of input. Plain data: a connection can be moved with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkedDecoder {
    state: State,
    /// Content bytes of the current chunk still to come; while its size is read, the size so far.
    chunk_bytes: u64,
    /// Bytes that extensions and trailer fields may still take.
    overhead_bytes_left: usize,
}

/// The result of one call of [`ChunkedDecoder::decode`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub struct Step {
    /// Bytes of input that are done with. At least 1, unless the input was empty, or the body or what was asked for had
    /// ended.
    pub consumed: usize,
    /// Where in the input the content is that was found; ends at `consumed` if it is not empty.
    pub content: Range<usize>,
    /// The body has ended: what follows the consumed bytes does not belong to it.
    pub ended: bool,
}

/// Why a body was refused. Where it ends is then unknown, so the connection cannot be kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChunkError {
    /// A chunk size that is not 1 to 16 hexadecimal digits, or is followed by something else than an extension or the
    /// end of the line.
    Size,
    /// An extension without a name, with a value that is neither a token nor a quoted string, or with a quoted string
    /// that does not end on its line.
    Extension,
    /// A line ends in something else than CR LF.
    LineEnd,
    /// A chunk is not followed by the end of a line where its size says.
    Content,
    /// A trailer line that is not a field.
    Trailer,
    /// Extensions and trailer fields take more bytes than allowed.
    Overhead,
}

impl fmt::Display for ChunkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ChunkError::Size => "the size of a chunk is malformed",
            ChunkError::Extension => "a chunk extension is malformed",
            ChunkError::LineEnd => "a line of the chunked coding does not end in CR LF",
            ChunkError::Content => "a chunk is longer than its size",
            ChunkError::Trailer => "a trailer field is malformed",
            ChunkError::Overhead => "chunk extensions and trailer fields are too long",
        })
    }
}

impl std::error::Error for ChunkError {}

/// The part that is expected next; the decoder begins at the upper left.
///
/// ```text
///   +-> Size --";" or SP ";"--> extensions, below
///   |   |                          |
///   |   CR                         CR
///   |   +--------------> SizeEnd <-+
///   |                    |     |
///   |          LF, size > 0   LF, size 0
///   |                    v     v
///   |              Content     TrailerStart --token--> TrailerName --":"--> TrailerValue
///   |                    |     |    ^                                           |
///   |   after its last byte    CR   +-------LF------- TrailerEnd <------CR------+
///   |                    v     v
///   |            ContentCr     End --LF--> Ended
///   |                    CR
///   |                    v
///   +-------LF-- ContentEnd
///
///  Extensions: what may follow in each state. SP is a space or a tab.
///
///   SizeSpace                SP: the same; ";": NameStart
///   NameStart                SP: the same; token: Name
///   Name                     token: the same; SP: NameSpace; "=": ValueStart; ";": NameStart; CR: SizeEnd
///   NameSpace                SP: the same; "=": ValueStart; ";": NameStart
///   ValueStart               SP: the same; token: Token; DQUOTE: Quoted
///   Token                    token: the same; SP: ValueSpace; ";": NameStart; CR: SizeEnd
///   Quoted                   text: the same; "\": QuotedPair; DQUOTE: ValueEnd
///   QuotedPair               text: Quoted
///   ValueEnd                 SP: ValueSpace; ";": NameStart; CR: SizeEnd
///   ValueSpace               SP: the same; ";": NameStart
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Size { digits: u8 },
    SizeSpace,
    NameStart,
    Name,
    NameSpace,
    ValueStart,
    Token,
    Quoted,
    QuotedPair,
    ValueEnd,
    ValueSpace,
    SizeEnd,
    Content,
    ContentCr,
    ContentEnd,
    TrailerStart,
    TrailerName,
    TrailerValue,
    TrailerEnd,
    End,
    Ended,
}

/// As many as a `u64` has room for.
const SIZE_DIGITS_MAX: u8 = 16;

impl ChunkedDecoder {
    /// A decoder for one body, whose extensions and trailer fields may take `overhead_bytes_max` bytes altogether, from
    /// the semicolons and with the line ends of trailer fields. Sizes and the line ends of chunks are not
    /// counted: they are at most 20 bytes a chunk, and bounded by bounding the content, of which each has a byte.
    pub fn new(overhead_bytes_max: usize) -> ChunkedDecoder {
        ChunkedDecoder { state: State::Size { digits: 0 }, chunk_bytes: 0, overhead_bytes_left: overhead_bytes_max }
    }

    /// Whether the body has ended.
    pub fn is_ended(&self) -> bool {
        self.state == State::Ended
    }

    /// Takes input up to the end of the first piece of content in it, or of the body, or of the input. Call it again
    /// with the rest until that is empty or the body has ended.
    ///
    /// Work is bounded by the bytes of input which are not content; content is skipped, not read.
    ///
    /// # Errors
    /// See [`ChunkError`]. All content before the error has been given out by earlier calls; later calls are of no use.
    pub fn decode(&mut self, input: &[u8]) -> Result<Step, ChunkError> {
        self.decode_some(input, false)
    }

    /// Whether the last chunk has been read and the body has not ended: what comes is the trailer section.
    pub fn is_in_trailers(&self) -> bool {
        matches!(
            self.state,
            State::TrailerStart | State::TrailerName | State::TrailerValue | State::TrailerEnd | State::End
        )
    }

    /// As [`ChunkedDecoder::decode`]; if `stops_at_trailers`, no further than to the beginning of the trailer section,
    /// so that what the next calls consume is that section.
    ///
    /// # Errors
    /// As [`ChunkedDecoder::decode`].
    pub(crate) fn decode_some(&mut self, input: &[u8], stops_at_trailers: bool) -> Result<Step, ChunkError> {
        let mut consumed = 0;
        while let Some(&byte) = input.get(consumed) {
            match self.state {
                State::Ended => break,
                State::TrailerStart if stops_at_trailers => break,
                State::Content => {
                    let content = consumed..consumed + self.skip_content(input.len() - consumed);
                    return Ok(Step { consumed: content.end, content, ended: false });
                }
                _ => self.state = self.next(byte)?,
            }
            consumed += 1;
        }
        Ok(Step { consumed, content: consumed..consumed, ended: self.is_ended() })
    }

    /// Takes as much content as there is and belongs to the chunk; gives how much that is.
    fn skip_content(&mut self, available: usize) -> usize {
        let taken = usize::try_from(self.chunk_bytes).map_or(available, |left| left.min(available));
        self.chunk_bytes -= taken as u64;
        if self.chunk_bytes == 0 {
            self.state = State::ContentCr;
        }
        taken
    }

    /// The state after one byte that is not content.
    fn next(&mut self, byte: u8) -> Result<State, ChunkError> {
        match self.state {
            State::Size { digits } => self.after_size(digits, byte),
            State::SizeSpace
            | State::NameStart
            | State::Name
            | State::NameSpace
            | State::ValueStart
            | State::Token
            | State::Quoted
            | State::QuotedPair
            | State::ValueEnd
            | State::ValueSpace => self.after_extension(byte),
            State::SizeEnd if self.chunk_bytes == 0 => line_feed(byte, State::TrailerStart),
            State::SizeEnd => line_feed(byte, State::Content),
            State::ContentCr if byte == b'\r' => Ok(State::ContentEnd),
            State::ContentCr => Err(ChunkError::Content),
            State::ContentEnd => line_feed(byte, State::Size { digits: 0 }),
            State::TrailerStart if byte == b'\r' => Ok(State::End),
            State::TrailerStart | State::TrailerName | State::TrailerValue | State::TrailerEnd => {
                self.after_trailer(byte)
            }
            State::End => line_feed(byte, State::Ended),
            State::Content | State::Ended => {
                unreachable!("decode() passes no byte on in these states")
            }
        }
    }

    fn after_size(&mut self, digits: u8, byte: u8) -> Result<State, ChunkError> {
        if let Some(digit) = char::from(byte).to_digit(16) {
            if digits == SIZE_DIGITS_MAX {
                return Err(ChunkError::Size);
            }
            let size = if digits == 0 { 0 } else { self.chunk_bytes };
            self.chunk_bytes = size * 16 + u64::from(digit);
            return Ok(State::Size { digits: digits + 1 });
        }
        match byte {
            _ if digits == 0 => Err(ChunkError::Size),
            b'\r' => Ok(State::SizeEnd),
            b';' | b' ' | b'\t' => self.after_extension(byte),
            b'\n' => Err(ChunkError::LineEnd),
            _ => Err(ChunkError::Size),
        }
    }

    /// RFC 9112 7.1.1: `*( BWS ";" BWS name [ BWS "=" BWS ( token / quoted-string ) ] )`. White space is bad there, but
    /// must be accepted; none may stand before the end of the line.
    fn after_extension(&mut self, byte: u8) -> Result<State, ChunkError> {
        let may_end = matches!(self.state, State::Name | State::Token | State::ValueEnd);
        match byte {
            b'\r' if may_end => return Ok(State::SizeEnd),
            b'\n' if may_end => return Err(ChunkError::LineEnd),
            _ => self.spend_overhead()?,
        }
        let is_space = matches!(byte, b' ' | b'\t');
        let is_token = list::is_token_byte(byte);
        match self.state {
            State::Size { .. } | State::SizeSpace if is_space => Ok(State::SizeSpace),
            State::Size { .. } | State::SizeSpace if byte == b';' => Ok(State::NameStart),
            State::Size { .. } | State::SizeSpace => Err(ChunkError::Size),
            State::NameStart if is_space => Ok(State::NameStart),
            State::NameStart | State::Name if is_token => Ok(State::Name),
            State::Name | State::NameSpace if is_space => Ok(State::NameSpace),
            State::Name | State::NameSpace if byte == b'=' => Ok(State::ValueStart),
            State::ValueStart if is_space => Ok(State::ValueStart),
            State::ValueStart if byte == b'"' => Ok(State::Quoted),
            State::ValueStart | State::Token if is_token => Ok(State::Token),
            State::Quoted if byte == b'"' => Ok(State::ValueEnd),
            State::Quoted if byte == b'\\' => Ok(State::QuotedPair),
            State::Quoted | State::QuotedPair if is_text_byte(byte) => Ok(State::Quoted),
            State::Token | State::ValueEnd | State::ValueSpace if is_space => Ok(State::ValueSpace),
            State::Name | State::NameSpace | State::Token | State::ValueEnd | State::ValueSpace if byte == b';' => {
                Ok(State::NameStart)
            }
            _ => Err(ChunkError::Extension),
        }
    }

    /// RFC 9112 5: a name, a colon right after it, a value; no line is the continuation of another (5.2).
    fn after_trailer(&mut self, byte: u8) -> Result<State, ChunkError> {
        self.spend_overhead()?;
        match (self.state, byte) {
            (State::TrailerEnd, _) => line_feed(byte, State::TrailerStart),
            (State::TrailerStart | State::TrailerName, _) if list::is_token_byte(byte) => Ok(State::TrailerName),
            (State::TrailerName, b':') => Ok(State::TrailerValue),
            (State::TrailerValue, b'\r') => Ok(State::TrailerEnd),
            (State::TrailerValue, _) if is_text_byte(byte) => Ok(State::TrailerValue),
            (_, b'\n') => Err(ChunkError::LineEnd),
            _ => Err(ChunkError::Trailer),
        }
    }

    fn spend_overhead(&mut self) -> Result<(), ChunkError> {
        self.overhead_bytes_left = self.overhead_bytes_left.checked_sub(1).ok_or(ChunkError::Overhead)?;
        Ok(())
    }
}

fn line_feed(byte: u8, next: State) -> Result<State, ChunkError> {
    if byte == b'\n' { Ok(next) } else { Err(ChunkError::LineEnd) }
}

/// Whether a byte may be part of a field value or a quoted string (RFC 9110 5.5 and 5.6.4).
fn is_text_byte(byte: u8) -> bool {
    matches!(byte, b'\t' | b' '..=b'~' | 0x80..)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// How a body turned out.
    #[derive(Clone, Debug, PartialEq, Eq)]
    struct Decoded {
        content: Vec<u8>,
        /// `Ok(Some(n))`: ended after n bytes. `Ok(None)`: more input is needed.
        end: Result<Option<usize>, ChunkError>,
    }

    /// Decodes pieces that arrive one after another.
    fn decode_pieces<'a>(pieces: impl IntoIterator<Item = &'a [u8]>, overhead_bytes_max: usize) -> Decoded {
        let mut decoder = ChunkedDecoder::new(overhead_bytes_max);
        let (mut content, mut consumed) = (Vec::new(), 0);
        for mut piece in pieces {
            while !piece.is_empty() && !decoder.is_ended() {
                let step = match decoder.decode(piece) {
                    Ok(step) => step,
                    Err(error) => {
                        return Decoded { content, end: Err(error) };
                    }
                };
                assert!(step.consumed > 0 && step.content.end <= step.consumed);
                assert_eq!(step.ended, decoder.is_ended());
                content.extend_from_slice(&piece[step.content]);
                consumed += step.consumed;
                piece = &piece[step.consumed..];
            }
        }
        let end = Ok(decoder.is_ended().then_some(consumed));
        Decoded { content, end }
    }

    fn decode(body: &str) -> Decoded {
        decode_pieces([body.as_bytes()], 64)
    }

    fn assert_content(body: &str, content: &str) {
        let expected = Decoded { content: content.into(), end: Ok(Some(body.len())) };
        assert_eq!(decode(body), expected, "{body:?}");
        assert_eq!(decode_pieces(body.as_bytes().chunks(1), 64), expected, "{body:?}, byte by byte");
    }

    fn assert_refused(bodies: &[&str], error: ChunkError) {
        for body in bodies {
            assert_eq!(decode(body).end, Err(error), "{body:?}");
        }
    }

    // RFC 9112 7.1.
    #[test]
    fn chunks_are_joined() {
        assert_content("0\r\n\r\n", "");
        assert_content(
            "4\r\nWiki\r\n6\r\npedia \r\nE\r\nin \r\n\r\nchunks.\r\n0\r\n\r\n",
            "Wikipedia in \r\n\r\nchunks.",
        );
        assert_content("0000000000000003\r\nabc\r\n000\r\n\r\n", "abc");
        assert_content("a\r\n0123456789\r\nA\r\n0123456789\r\n0\r\n\r\n", "01234567890123456789");
    }

    fn step(consumed: usize, content: Range<usize>, ended: bool) -> Result<Step, ChunkError> {
        Ok(Step { consumed, content, ended })
    }

    #[test]
    fn what_follows_the_body_is_left() {
        let mut decoder = ChunkedDecoder::new(0);
        assert_eq!(decoder.decode(b"0\r\n\r\nGET / HTTP/1.1\r\n"), step(5, 5..5, true));
        assert_eq!(decoder.decode(b"GET"), step(0, 0..0, true));
    }

    #[test]
    fn content_is_given_out_where_it_lies() {
        let mut decoder = ChunkedDecoder::new(0);
        assert_eq!(decoder.decode(b""), step(0, 0..0, false));
        assert_eq!(decoder.decode(b"5\r\nab"), step(5, 3..5, false));
        assert_eq!(decoder.decode(b"cde\r\n0\r\n\r\n"), step(3, 0..3, false));
        assert_eq!(decoder.decode(b"\r\n0\r\n\r\n"), step(7, 7..7, true));
    }

    // RFC 9112 7.1.1.
    #[test]
    fn extensions_are_dropped() {
        assert_content("1;a\r\nx\r\n0;b=c;d=\"e\"\r\n\r\n", "x");
        assert_content("1 \t; a = b ;c\t;\td=\"\" ;e\r\nx\r\n0\r\n\r\n", "x");
        assert_content("1;a=\"\\\";\\\\\"\r\nx\r\n0\r\n\r\n", "x");
        assert_content("1;a=\"\u{e9}\t[\"\r\nx\r\n0\r\n\r\n", "x");
    }

    // RFC 9112 7.1.1.
    #[test]
    fn an_extension_has_a_token_for_its_name_and_a_token_or_a_quoted_string_for_its_value() {
        let extensions = [
            ";",
            "; ",
            ";;a",
            ";a;",
            ";=b",
            ";a=",
            ";a= ",
            ";a=;b",
            ";a==b",
            ";bad[=x",
            ";a[",
            ";a=b[",
            ";a=\u{e9}",
            ";a b",
            ";a=b c",
            ";a=b=c",
            ";a=\"b\"c",
            ";a=\"b\"\"c\"",
            ";a=b\"c\"",
            ";\"a\"",
            ";\"a\"=b",
            ";a\"b\"",
            ";a ",
            ";a=b ",
            ";a=\"b\" ",
            ";a=\\b",
            ";a,b",
            ";a=b,c",
            ";{}",
        ];
        for extension in extensions {
            assert_refused(&[&format!("1{extension}\r\nx\r\n0\r\n\r\n")], ChunkError::Extension);
        }
    }

    // RFC 9112 7.1.2.
    #[test]
    fn trailer_fields_are_dropped() {
        assert_content("1\r\nx\r\n0\r\nExpires: now\r\nB:\r\nC:\t\"d\r\n\r\n", "x");
    }

    #[test]
    fn sizes_are_hexadecimal_digits_and_nothing_else() {
        let sizes = ["", " 1", "+1", "-1", "0x1", "g", ";a", "1_0", "1 ", "1 1", "1,2", "\n"];
        for size in sizes {
            assert_refused(&[&format!("{size}\r\n")], ChunkError::Size);
        }
        for size in ["00000000000000001", "10000000000000000", "fffffffffffffffff"] {
            assert_refused(&[&format!("{size}\r\n")], ChunkError::Size);
        }
    }

    #[test]
    fn the_largest_size_does_not_overflow() {
        let decoded = decode("ffffffffffffffff\r\nabc");
        assert_eq!((&decoded.content[..], decoded.end), (&b"abc"[..], Ok(None)));
    }

    // RFC 9112 2.2: a bare LF may be accepted in a head, not here.
    #[test]
    fn lines_end_in_cr_lf_only() {
        let bodies = [
            "1\nx\r\n0\r\n\r\n",
            "1\rx",
            "1\r\r\n",
            "1;a\nx",
            "1;a\rx",
            "1\r\nx\r0",
            "0\r\n\r\r\n",
            "0\r\na:b\n",
            "0\r\na:b\rc",
            "0\r\n\n",
        ];
        assert_refused(&bodies, ChunkError::LineEnd);
    }

    #[test]
    fn chunks_end_where_their_size_says() {
        assert_refused(&["1\r\nxy\r\n", "1\r\nx\n", "1\r\nx0\r\n"], ChunkError::Content);
        assert_refused(&["3\r\nx\r\n0\r\n\r\n"], ChunkError::Content);
        assert_refused(&["2\r\nx\r\n"], ChunkError::Content);
    }

    #[test]
    fn control_bytes_and_open_strings_are_refused_in_extensions() {
        assert_refused(&["1;a=\"b\r\nx", "1;a=\"\\\r\nx", "1;\0\r\n", "1;a=\"\n\"", "1;\u{7f}"], ChunkError::Extension);
    }

    // RFC 9112 5.1 and 5.2.
    #[test]
    fn trailer_lines_are_fields() {
        let fields = ["ab", ":b", "a :b", " a:b", "a:\0", "a:b\r\n c"];
        for field in fields {
            assert_refused(&[&format!("0\r\n{field}\r\n")], ChunkError::Trailer);
        }
    }

    #[test]
    fn extensions_and_trailers_are_bounded_together() {
        let body = &b"1;ab\r\nx\r\n0;c\r\nd:e\r\n\r\n"[..];
        assert_eq!(decode_pieces([body], 10).end, Ok(Some(body.len())));
        for overhead_bytes_max in 0..10 {
            assert_eq!(decode_pieces([body], overhead_bytes_max).end, Err(ChunkError::Overhead));
        }
        assert_eq!(decode_pieces([&b"1\r\nx\r\n0\r\n\r\n"[..]], 0).end, Ok(Some(11)));
    }

    /// RFC 9112 7.1.1 written down once more, as a grammar that tries every way.
    fn are_extensions(rest: &[u8]) -> bool {
        let skip = |rest: &[u8]| rest.iter().take_while(|byte| matches!(byte, b' ' | b'\t')).count();
        let token = |rest: &[u8]| rest.iter().take_while(|byte| list::is_token_byte(**byte)).count();
        if rest.is_empty() {
            return true;
        }
        let Some(rest) = rest[skip(rest)..].strip_prefix(b";") else { return false };
        let rest = &rest[skip(rest)..];
        let name = token(rest);
        if name == 0 {
            return false;
        }
        let after_name = &rest[name..];
        let Some(value) = after_name[skip(after_name)..].strip_prefix(b"=") else { return are_extensions(after_name) };
        let value = &value[skip(value)..];
        if let Some(mut quoted) = value.strip_prefix(b"\"") {
            loop {
                quoted = match quoted {
                    [b'"', rest @ ..] => return are_extensions(rest),
                    [b'\\', _, rest @ ..] => rest,
                    [b'\\'] | [] => return false,
                    [_, rest @ ..] => rest,
                };
            }
        }
        token(value) > 0 && are_extensions(&value[token(value)..])
    }

    /// Bodies that are right, or almost.
    fn body() -> impl Strategy<Value = Vec<u8>> {
        let piece = prop_oneof![
            8 => "[a-z]{1,40}".prop_map(|text| format!("{:x}\r\n{text}\r\n", text.len())),
            2 => "[a-z]{1,9}".prop_map(|text| format!("{}; a=\"\\{text}\"\r\n{text}\r\n", text.len())),
            2 => "0\r\n([a-z]{1,3}: ?[a-z]{0,3}\r\n){0,2}\r\n",
            1 => "[0-9a-f;\"\\\\:\r\n \t]{0,4}",
        ];
        prop::collection::vec(piece, 0..8).prop_map(|pieces| pieces.concat().into_bytes())
    }

    fn assert_same_in_pieces(body: &[u8], cuts: &[prop::sample::Index]) -> Result<(), TestCaseError> {
        let mut cuts: Vec<_> = cuts.iter().map(|cut| cut.index(body.len() + 1)).collect();
        cuts.sort_unstable();
        let starts = [0].into_iter().chain(cuts.iter().copied());
        let ends = cuts.iter().copied().chain([body.len()]);
        let pieces = starts.zip(ends).map(|(start, end)| &body[start..end]);
        let whole = decode_pieces([body], 64);
        prop_assert_eq!(&decode_pieces(pieces, 64), &whole);
        prop_assert_eq!(&decode_pieces(body.chunks(1), 64), &whole);
        Ok(())
    }

    proptest! {
        #[test]
        fn how_a_body_is_divided_does_not_matter(body in body(), cuts: [prop::sample::Index; 3]) {
            assert_same_in_pieces(&body, &cuts)?;
        }

        #[test]
        fn how_any_bytes_are_divided_does_not_matter(body: Vec<u8>, cuts: [prop::sample::Index; 3]) {
            assert_same_in_pieces(&body, &cuts)?;
        }

        #[test]
        fn what_is_encoded_is_decoded(chunks in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..50), 0..6)) {
            let mut body = Vec::new();
            for chunk in &chunks {
                body.extend_from_slice(format!("{:X}\r\n", chunk.len()).as_bytes());
                body.extend_from_slice(chunk);
                body.extend_from_slice(b"\r\n");
            }
            body.extend_from_slice(b"0\r\n\r\n");
            let expected = Decoded { content: chunks.concat(), end: Ok(Some(body.len())) };
            prop_assert_eq!(decode_pieces([&body[..]], 0), expected);
        }

        #[test]
        fn extensions_are_accepted_exactly_if_the_grammar_has_them(line in "[ ]?;(;| |a|=|\"|b|\\\\|\\[|\u{e9}){0,10}") {
            let outcome = decode(&format!("0{line}\r\n\r\n")).end;
            prop_assert_eq!(outcome.is_ok(), are_extensions(line.as_bytes()), "{:?}", outcome);
        }

        #[test]
        fn a_size_line_means_what_another_parser_takes_it_to_mean(
            line in "[0-9a-fA-F]{0,18}([ \t]{0,2};[a-z=\" \\\\]{0,6})?[\r]?[\n]?[0-9a-z\r\n]{0,3}",
        ) {
            let mut decoder = ChunkedDecoder::new(usize::MAX);
            let lines_end = line.bytes().position(|byte| {
                decoder.decode(&[byte]).is_err() || matches!(decoder.state, State::Content | State::TrailerStart)
            });
            let is_accepted = matches!(decoder.state, State::Content | State::TrailerStart);
            if let (true, Some(end), Ok(httparse::Status::Complete((length, size)))) =
                (is_accepted, lines_end, httparse::parse_chunk_size(line.as_bytes()))
            {
                prop_assert_eq!((end + 1, decoder.chunk_bytes), (length, size));
            }
        }
    }
}
