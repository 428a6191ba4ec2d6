//! Searching texts: what is asked for, and whether a page is what is asked for (JAWS framework paper, 3.5: a pipeline
//! of positive and negative filters).
//!
//! ```text
//!   "(performance AND (NOT symphonic))" ── Query ──> all of: has `performance`, has no `symphonic`
//!   page of HTML, Markdown or text      ── Text  ──> title, words ── matches ──> how often, and an excerpt
//! ```
//!
//! Owns: [`Query`], its grammar and its bounds, and [`Text`], which is what of a page is searched. Pure. Words are
//! letters and digits; case does not count.
//!
//! ```text
//!   any  = all *( "OR" all )
//!   all  = not *( [ "AND" ] not )
//!   not  = "NOT" not / "(" any ")" / word [ "*" ] / DQUOTE words DQUOTE
//! ```

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use lol_html::html_content::TextType;
use lol_html::send::HtmlRewriter;
use lol_html::send::Settings;
use lol_html::{MemorySettings, doc_text, text};

/// Bytes of a query.
pub const QUERY_BYTES_MAX: usize = 256;
/// Terms of a query, and parentheses within each other.
const TERMS_MAX: usize = 32;
const DEPTH_MAX: usize = 16;
/// Characters of a title that are kept.
const TITLE_CHARACTERS_MAX: usize = 200;
/// Words of an excerpt, before and behind what was found.
const EXCERPT_WORDS: (usize, usize) = (8, 24);

/// A parsed query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Query(Part);

/// A part of a query: a filter that a page passes or does not.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    /// The page passes all of them.
    All(Vec<Part>),
    /// It passes one at least.
    Any(Vec<Part>),
    /// It does not pass.
    Not(Box<Part>),
    /// These words follow each other in it: with a space before, between, and behind unless the last one may go on.
    Has(String),
}

/// Why a query cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueryError {
    /// It has more than [`QUERY_BYTES_MAX`] bytes, too many terms, or too many parentheses within each other.
    TooLong,
    /// Something is to follow at its end.
    Incomplete,
    /// A parenthesis ends that has not begun, or a word stands where none can.
    Unexpected,
    /// A part of it has neither letters nor digits.
    NoWord,
}

impl fmt::Display for QueryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            QueryError::TooLong => "the query is too long",
            QueryError::Incomplete => "the query ends too early: a word, a quote or a parenthesis is missing",
            QueryError::Unexpected => "the query has AND, OR, NOT or a parenthesis where none can stand",
            QueryError::NoWord => "the query has a part without letters or digits",
        })
    }
}

impl std::error::Error for QueryError {}

impl Query {
    /// Reads a query.
    ///
    /// # Errors
    /// The fault in it.
    pub fn parse(text: &str) -> Result<Query, QueryError> {
        if text.len() > QUERY_BYTES_MAX {
            return Err(QueryError::TooLong);
        }
        let mut parser = Parser { tokens: tokens(text)?, at: 0, terms: 0 };
        let part = parser.any(0)?;
        match parser.peek() {
            None => Ok(Query(part)),
            Some(_) => Err(QueryError::Unexpected),
        }
    }

    /// How often what is asked for is in a page; none if the page is not what is asked for.
    pub fn matches(&self, text: &Text) -> Option<usize> {
        self.0.passes(&text.words).then(|| {
            let mut sought = Vec::new();
            self.0.sought(&mut sought);
            sought.iter().map(|has| memchr::memmem::find_iter(text.words.as_bytes(), has.as_bytes()).count()).sum()
        })
    }

    /// A few words of a page around the first one that is asked for, as they stand there.
    pub fn excerpt(&self, text: &Text) -> String {
        let mut sought = Vec::new();
        self.0.sought(&mut sought);
        let firsts: Vec<&str> = sought.iter().filter_map(|has| has.split(' ').find(|word| !word.is_empty())).collect();
        let begins = |word: &str| {
            let word = words_of(word);
            word.split(' ').any(|one| !one.is_empty() && firsts.iter().any(|first| one.starts_with(first)))
        };
        let words: Vec<&str> = text.plain.split_whitespace().collect();
        let at = words.iter().position(|word| begins(word)).unwrap_or(0);
        let begin = at.saturating_sub(EXCERPT_WORDS.0);
        let end = (at + EXCERPT_WORDS.1).min(words.len());
        let (before, behind) = (if begin > 0 { "… " } else { "" }, if end < words.len() { " …" } else { "" });
        format!("{before}{}{behind}", words[begin..end].join(" "))
    }
}

impl fmt::Display for Query {
    /// As it is understood, with all parentheses: it reads as the same query again.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let between = |f: &mut fmt::Formatter<'_>, parts: &[Part], word: &str| {
            f.write_str("(")?;
            for (at, part) in parts.iter().enumerate() {
                f.write_str(if at > 0 { word } else { "" })?;
                part.fmt(f)?;
            }
            f.write_str(")")
        };
        match self {
            Part::All(parts) => between(f, parts, " AND "),
            Part::Any(parts) => between(f, parts, " OR "),
            Part::Not(part) => write!(f, "(NOT {part})"),
            Part::Has(words) if words.ends_with(' ') => write!(f, "\"{}\"", words.trim()),
            Part::Has(words) => write!(f, "\"{}*\"", words.trim()),
        }
    }
}

impl Part {
    fn passes(&self, words: &str) -> bool {
        match self {
            Part::All(parts) => parts.iter().all(|part| part.passes(words)),
            Part::Any(parts) => parts.iter().any(|part| part.passes(words)),
            Part::Not(part) => !part.passes(words),
            Part::Has(has) => memchr::memmem::find(words.as_bytes(), has.as_bytes()).is_some(),
        }
    }

    /// Collects the words that a page must have.
    fn sought<'p>(&'p self, into: &mut Vec<&'p str>) {
        match self {
            Part::All(parts) | Part::Any(parts) => parts.iter().for_each(|part| part.sought(into)),
            Part::Not(_) => {}
            Part::Has(has) => into.push(has),
        }
    }
}

/// A part of the text of a query.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Token {
    Open,
    Close,
    And,
    Or,
    Not,
    Has(String),
}

fn tokens(text: &str) -> Result<Vec<Token>, QueryError> {
    let mut tokens = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let (token, length) = match first {
            '(' => (Token::Open, 1),
            ')' => (Token::Close, 1),
            '"' => {
                let length = rest[1..].find('"').ok_or(QueryError::Incomplete)?;
                (has(&rest[1..1 + length])?, length + 2)
            }
            _ => {
                let is_end = |each: char| each.is_whitespace() || matches!(each, '(' | ')' | '"');
                let length = rest.find(is_end).unwrap_or(rest.len());
                let token = match &rest[..length] {
                    "AND" => Token::And,
                    "OR" => Token::Or,
                    "NOT" => Token::Not,
                    words => has(words)?,
                };
                (token, length)
            }
        };
        tokens.push(token);
        rest = rest[length..].trim_start();
    }
    Ok(tokens)
}

/// Words that follow each other.
fn has(words: &str) -> Result<Token, QueryError> {
    let mut normal = words_of(words);
    if normal.trim().is_empty() {
        return Err(QueryError::NoWord);
    }
    if words.trim_end().ends_with('*') {
        normal.pop();
    }
    Ok(Token::Has(normal))
}

struct Parser {
    tokens: Vec<Token>,
    at: usize,
    terms: usize,
}

impl Parser {
    fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.at)
    }

    fn take(&mut self, token: &Token) -> bool {
        let is_next = self.peek() == Some(token);
        self.at += usize::from(is_next);
        is_next
    }

    fn any(&mut self, depth: usize) -> Result<Part, QueryError> {
        let mut parts = vec![self.all(depth)?];
        while self.take(&Token::Or) {
            parts.push(self.all(depth)?);
        }
        Ok(if parts.len() == 1 { parts.swap_remove(0) } else { Part::Any(parts) })
    }

    fn all(&mut self, depth: usize) -> Result<Part, QueryError> {
        let mut parts = vec![self.not(depth)?];
        loop {
            let is_said = self.take(&Token::And);
            if !is_said && matches!(self.peek(), None | Some(Token::Or | Token::Close)) {
                break;
            }
            parts.push(self.not(depth)?);
        }
        Ok(if parts.len() == 1 { parts.swap_remove(0) } else { Part::All(parts) })
    }

    fn not(&mut self, depth: usize) -> Result<Part, QueryError> {
        if depth == DEPTH_MAX {
            return Err(QueryError::TooLong);
        }
        let token = self.peek().ok_or(QueryError::Incomplete)?.clone();
        self.at += 1;
        match token {
            Token::Not => Ok(Part::Not(Box::new(self.not(depth + 1)?))),
            Token::Open => {
                let part = self.any(depth + 1)?;
                if self.take(&Token::Close) { Ok(part) } else { Err(QueryError::Incomplete) }
            }
            Token::Has(_) if self.terms == TERMS_MAX => Err(QueryError::TooLong),
            Token::Has(words) => {
                self.terms += 1;
                Ok(Part::Has(words))
            }
            Token::And | Token::Or | Token::Close => Err(QueryError::Unexpected),
        }
    }
}

/// The words of a text in lower case, with a space before and behind each.
fn words_of(text: &str) -> String {
    let mut words = String::with_capacity(text.len() + 2);
    words.push(' ');
    for each in text.chars() {
        if each.is_alphanumeric() {
            words.extend(each.to_lowercase());
        } else if !words.ends_with(' ') {
            words.push(' ');
        }
    }
    if !words.ends_with(' ') {
        words.push(' ');
    }
    words
}

/// The searchable part of a page.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Text {
    title: String,
    /// As a reader sees it, without white space but between words.
    plain: String,
    /// The words that are compared with queries, the title included.
    words: String,
}

impl Text {
    /// The text of a page of this media type; none if it has none. Bytes that are not UTF-8 are no letters.
    pub fn of(media_type: &str, content: &[u8]) -> Option<Text> {
        let kind = media_type.split(';').next().unwrap_or_default().trim();
        let (title, plain) = match kind {
            "text/html" | "application/xhtml+xml" => of_html(content)?,
            "text/markdown" | "text/x-markdown" => of_markdown(&String::from_utf8_lossy(content)),
            "text/plain" => (String::new(), String::from_utf8_lossy(content).into_owned()),
            _ => return None,
        };
        let collapsed = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        let (title, plain) = (collapsed(&title), collapsed(&plain));
        let words = words_of(&format!("{title} {plain}"));
        let title = title.chars().take(TITLE_CHARACTERS_MAX).collect();
        Some(Text { title, plain, words })
    }

    /// Its title; empty if it has none.
    pub fn title(&self) -> &str {
        &self.title
    }

    /// Bytes of memory that it takes, about.
    pub fn bytes(&self) -> usize {
        self.title.len() + self.plain.len() + self.words.len() + size_of::<Text>()
    }
}

/// The first heading is the title, as the filter `markdown` has it.
fn of_markdown(text: &str) -> (String, String) {
    let heading = text.lines().find_map(|line| line.trim_start().strip_prefix('#'));
    (heading.map(|line| line.trim_matches(['#', ' ']).to_owned()).unwrap_or_default(), text.to_owned())
}

/// Bytes that the reader of HTML may hold: the longest tag.
const HTML_BYTES_MAX: usize = 4 << 20;

/// Title and text of a page. None if it cannot be read.
fn of_html(content: &[u8]) -> Option<(String, String)> {
    let read: Arc<Mutex<(String, String)>> = Arc::default();
    let (of_title, of_page) = (read.clone(), read.clone());
    let lock = |read: &Arc<Mutex<(String, String)>>, change: &dyn Fn(&mut (String, String))| {
        change(&mut read.lock().unwrap_or_else(PoisonError::into_inner));
    };
    let settings = Settings::new_send()
        .with_strict(false)
        .with_memory_settings(MemorySettings::new().with_max_allowed_memory_usage(HTML_BYTES_MAX))
        .append_element_content_handler(text!("title", move |chunk| {
            // The title of a drawing within the page is text like any other.
            if chunk.text_type() == TextType::RCData {
                lock(&of_title, &|(title, _)| title.push_str(chunk.as_str()));
            }
            Ok(())
        }))
        .append_document_content_handler(doc_text!(move |chunk| {
            let is_shown = matches!(chunk.text_type(), TextType::Data | TextType::RCData | TextType::PlainText);
            lock(&of_page, &|(_, plain)| {
                plain.push_str(if is_shown { chunk.as_str() } else { "" });
                // Where a tag stands, a word ends.
                plain.push_str(if chunk.last_in_text_node() { " " } else { "" });
            });
            Ok(())
        }));
    let mut rewriter = HtmlRewriter::new(settings, |_: &[u8]| {});
    rewriter.write(content).ok()?;
    rewriter.end().ok()?;
    let (title, plain) = std::mem::take(&mut *read.lock().unwrap_or_else(PoisonError::into_inner));
    Some((decoded(&title), decoded(&plain)))
}

/// The character references that are common, as characters. Others stay as they are.
fn decoded(text: &str) -> String {
    const NAMED: [(&str, char); 7] =
        [("amp", '&'), ("lt", '<'), ("gt", '>'), ("quot", '"'), ("apos", '\''), ("nbsp", ' '), ("shy", '\u{ad}')];
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('&') {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        let name = rest.as_bytes().iter().take(12).position(|byte| *byte == b';').map(|end| &rest[1..end]);
        let character = name.and_then(|name| match name.strip_prefix('#') {
            Some(number) => match number.strip_prefix(['x', 'X']) {
                Some(hex) => u32::from_str_radix(hex, 16).ok(),
                None => number.parse().ok(),
            }
            .and_then(char::from_u32),
            None => NAMED.iter().find(|(known, _)| *known == name).map(|(_, character)| *character),
        });
        match (name, character) {
            (Some(name), Some(character)) => {
                out.push(character);
                rest = &rest[name.len() + 2..];
            }
            _ => {
                out.push('&');
                rest = &rest[1..];
            }
        }
    }
    out + rest
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn plain(text: &str) -> Text {
        Text::of("text/plain", text.as_bytes()).unwrap()
    }

    #[test]
    fn pages_pass_what_is_asked_for_and_nothing_else() {
        let page = plain("The Performance of symphonies, and of well-kept Web servers.");
        for (query, passes) in [
            ("performance", true),
            ("PERFORMANCE AND servers", true),
            ("performance servers", true),
            ("performance opera", false),
            ("performance OR opera", true),
            ("(performance AND (NOT symphonic))", true),
            ("(performance AND (NOT symphonies))", false),
            ("NOT performance", false),
            ("NOT NOT performance", true),
            ("perform", false),
            ("perform*", true),
            ("form*", false),
            ("\"web servers\"", true),
            ("\"servers web\"", false),
            ("\"of web*\"", false),
            ("well-kept", true),
            ("opera OR web NOT apache", true),
            ("opera web OR nothing", false),
            ("and", true),
        ] {
            let parsed = Query::parse(query).unwrap();
            assert_eq!(parsed.matches(&page).is_some(), passes, "{query}: {parsed}");
        }
    }

    #[test]
    fn what_is_no_query_is_said() {
        for (query, why) in [
            ("", QueryError::Incomplete),
            ("(a", QueryError::Incomplete),
            ("a AND", QueryError::Incomplete),
            ("a OR OR b", QueryError::Unexpected),
            ("AND a", QueryError::Unexpected),
            ("a)", QueryError::Unexpected),
            ("()", QueryError::Unexpected),
            ("\"a", QueryError::Incomplete),
            ("a ...", QueryError::NoWord),
            ("\"\"", QueryError::NoWord),
            (&"(".repeat(17), QueryError::TooLong),
            (&"a ".repeat(33), QueryError::TooLong),
            (&"a".repeat(257), QueryError::TooLong),
        ] {
            assert_eq!(Query::parse(query), Err(why), "{query}");
        }
        assert!(Query::parse(&"NOT ".repeat(17)).is_err());
    }

    #[test]
    fn of_html_what_is_shown_is_searched() {
        let page = b"<!doctype html><html><head><title>A &amp; B</title><style>p{color:red}</style>\
                     <script>let secret=1</script></head><body><p>Caf&#233; <b>bold</b>&nbsp;<!-- hidden -->end</p><p>last</body>";
        let text = Text::of("text/html; charset=utf-8", page).unwrap();
        assert_eq!((text.title(), &*text.words), ("A & B", " a b a b caf\u{e9} bold end last "));
        for absent in ["secret", "hidden", "color", "amp"] {
            assert_eq!(Query::parse(absent).unwrap().matches(&text), None, "{absent}");
        }
        assert_eq!(Text::of("image/png", page), None);
        let short = Text::of("text/html", b"<title>T</title><svg><title>drawn</title></svg><p>x").unwrap();
        assert_eq!((short.title(), &*short.words), ("T", " t t drawn x "));
    }

    #[test]
    fn an_excerpt_is_around_what_was_found() {
        let words: Vec<String> = (0..100).map(|number| format!("word{number}")).collect();
        let text = plain(&words.join(" "));
        let excerpt = Query::parse("NOT nothing Word50").unwrap().excerpt(&text);
        assert!(excerpt.starts_with("… word42 ") && excerpt.ends_with(" word73 …"), "{excerpt}");
        assert_eq!(Query::parse("NOT nothing").unwrap().excerpt(&plain("just this")), "just this");
        let markdown = Text::of("text/markdown", b"# The *guide*\n\nRead it.").unwrap();
        assert_eq!(markdown.title(), "The *guide*");
    }

    proptest! {
        #[test]
        fn whatever_is_typed_is_a_query_or_an_error(text in "[a-cAND ORT()\"*.]{0,40}|.{0,60}") {
            if let Ok(query) = Query::parse(&text) {
                // It reads as the same again, as far as it is short enough with all parentheses.
                if let Ok(again) = Query::parse(&query.to_string()) {
                    let page = plain("a b and c");
                    prop_assert_eq!(query.matches(&page).is_some(), again.matches(&page).is_some());
                }
                query.excerpt(&plain(&text));
            }
        }

        #[test]
        fn any_content_has_a_text_of_bounded_size(content: Vec<u8>, html: bool) {
            let media_type = if html { "text/html" } else { "text/markdown" };
            if let Some(text) = Text::of(media_type, &content) {
                prop_assert!(text.bytes() <= 16 * content.len() + 1024);
            }
        }

        #[test]
        fn words_of_a_page_are_found_in_it_and_negation_turns_round(words in prop::collection::vec("[a-e]{1,2}", 1..8), sought in "[a-e]{1,2}") {
            let page = plain(&words.join(" "));
            let is_there = words.contains(&sought);
            prop_assert_eq!(Query::parse(&sought).unwrap().matches(&page).is_some(), is_there);
            prop_assert_eq!(Query::parse(&format!("NOT {sought}")).unwrap().matches(&page).is_some(), !is_there);
        }
    }
}
