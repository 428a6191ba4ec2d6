//! What the fuzz targets run: the checks of `crates/proto/tests/proto`, and some of the server, which exist once and are
//! included from there, and what must hold of filters.
//!
//! Owns: how a fuzzer's bytes become inputs of the checks. Each function panics if its check does not hold.

#[path = "../../crates/site/src/content/access/authorization.rs"]
mod authorization;
#[path = "../../crates/site/src/content/access/authorization_checks.rs"]
mod authorization_checks;
#[path = "../../crates/site/src/content/upload/webdav/condition_checks.rs"]
mod condition_checks;
#[path = "../../crates/site/src/content/upload/webdav/conditions.rs"]
mod conditions;
#[path = "../../crates/proto/tests/proto/caching_checks.rs"]
mod caching_checks;
// Some are for tests only.
#[allow(dead_code)]
#[path = "../../crates/proto/tests/proto/checks.rs"]
mod checks;
#[path = "../../crates/proto/tests/proto/gateway_checks.rs"]
mod gateway_checks;
#[path = "../../crates/policy/tests/hint_table_checks.rs"]
mod hint_table_checks;
#[allow(dead_code, reason = "the conversations use more of it")]
#[path = "../../crates/proto/tests/proto/peer.rs"]
mod peer;
#[path = "../../crates/proto/tests/proto/responses.rs"]
mod responses;
#[allow(dead_code, reason = "the conversations use more of it")]
#[path = "../../crates/proto/tests/proto/script.rs"]
mod script;
#[path = "../../crates/proto/tests/proto/site.rs"]
mod site;

use std::sync::Arc;

use arbitrary::{Arbitrary, Result, Unstructured};

use checks::Operation;
use lamna_filter::search::{Query, Text};
use lamna_filter::{Bounds, Chain, Content, Fault, Parts, Step};
use lamna_proto::exchange::negotiate::Coding;
use peer::{Cycle, Habits};

/// A request head reads the same to another parser, and a prefix of it decides for its continuation. The first two
/// bytes say how long that prefix is.
pub fn head(input: &[u8]) {
    if let [low, high, head @ ..] = input {
        checks::head_agrees(head);
        checks::head_prefix_decides(head, usize::from(u16::from_le_bytes([*low, *high])));
    }
}

/// A header of the PROXY protocol is bounded and decided once. The first two bytes say how long the beginning is.
pub fn proxy_header(input: &[u8]) {
    if let [low, high, header @ ..] = input {
        checks::proxy_header(header, usize::from(u16::from_le_bytes([*low, *high])));
    }
}

/// A target's path names one thing beneath the root.
pub fn target_path(input: &[u8]) {
    checks::target_path(input);
}

/// A request goes on to an application in one reading. The first byte says how many bytes of content it has.
pub fn forwarded(input: &[u8]) {
    if let [bytes, rest @ ..] = input {
        let (content, head) = rest.split_at(rest.len().min(usize::from(*bytes)));
        gateway_checks::forwarded(head, content);
    }
}

/// An answer over HTTP/1.1 is read the same in any pieces. The first two bytes say what was asked, and how long the
/// pieces are.
pub fn http1_answer(input: &[u8]) {
    if let [asked, size, answer @ ..] = input {
        gateway_checks::http1_answer(answer, &[usize::from(*size)], asked & 1 == 1, asked & 2 == 2);
    }
}

/// An answer over FastCGI is read the same in any pieces; the first two bytes likewise.
pub fn fastcgi_answer(input: &[u8]) {
    if let [asked, size, answer @ ..] = input {
        gateway_checks::fastcgi_answer(answer, &[usize::from(*size)], asked & 1 == 1);
    }
}

/// What requests and answers say about caches never makes of an answer what it is not.
pub fn cache_control(input: &[u8]) {
    caching_checks::cache_control(input);
}

/// A table of hints that was kept is read as one or refused, whatever somebody has made of it.
pub fn hint_table(input: &[u8]) {
    hint_table_checks::hint_table(input);
}

/// What a request of WebDAV makes a condition is read in one way.
pub fn if_field(input: &[u8]) {
    condition_checks::if_field(input);
}

/// Who a request says that it is from is read in one way.
pub fn authorization(input: &[u8]) {
    authorization_checks::authorization(input);
}

/// The output of a script is read the same in any pieces; the first two bytes likewise.
pub fn cgi_answer(input: &[u8]) {
    if let [asked, size, output @ ..] = input {
        gateway_checks::cgi_answer(output, &[usize::from(*size)], asked & 1 == 1);
    }
}

/// A connection of HTTP/2 survives any bytes behind the preface. The first byte of each piece says whether it is a
/// frame: then its kind and flags follow, its stream and its payload, so that frames are found more often than by
/// chance.
pub fn http2(mut input: Unstructured<'_>) -> Result<()> {
    let habits = habits(&mut input)?;
    let mut pieces = Vec::new();
    while !input.is_empty() && pieces.len() < 64 {
        pieces.push(match input.int_in_range(0..=7)? {
            0 => Vec::arbitrary(&mut input)?,
            _ => frame(&mut input)?,
        });
    }
    checks::http2(habits, &pieces);
    Ok(())
}

/// A connection of HTTP/2 survives any header blocks. Each is a stream of its own; its length is the byte before it.
pub fn header_blocks(mut input: &[u8]) {
    let mut pieces = Vec::new();
    while let [length, rest @ ..] = input {
        let (block, rest) = rest.split_at(rest.len().min(usize::from(*length)));
        let stream = (2 * pieces.len() as u32 + 1).to_be_bytes();
        pieces.push([&[0, 0, block.len() as u8, 1, 5], &stream[..], block].concat());
        input = rest;
    }
    checks::http2(Habits::default(), &pieces);
}

fn frame(input: &mut Unstructured<'_>) -> Result<Vec<u8>> {
    let (kind, flags) = (input.int_in_range(0..=17)?, u8::arbitrary(input)?);
    let (stream, payload) = (input.int_in_range(0..=9u32)?, Vec::<u8>::arbitrary(input)?);
    let length = (payload.len().min(16_384) as u32).to_be_bytes();
    let payload = &payload[..payload.len().min(16_384)];
    Ok([&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat())
}

/// A connection survives any operations, and what it says does not depend on how the world behaves.
pub fn connection(mut input: Unstructured<'_>) -> Result<()> {
    let habits = habits(&mut input)?;
    let mut operations = Vec::new();
    while !input.is_empty() && operations.len() < 64 {
        operations.push(operation(&mut input)?);
    }
    let sent = operations.iter().filter_map(sent).collect::<Vec<_>>().concat();
    checks::independence(Habits { fails: Cycle::new(vec![false]), ..habits.clone() }, &sent);
    checks::operations(habits, &operations);
    Ok(())
}

fn sent(operation: &Operation) -> Option<&[u8]> {
    match operation {
        Operation::Send(bytes) => Some(bytes),
        Operation::Phrase(index) => Some(checks::PHRASES[usize::from(*index) % checks::PHRASES.len()].as_bytes()),
        _ => None,
    }
}

fn habits(input: &mut Unstructured<'_>) -> Result<Habits> {
    Ok(Habits {
        receive_bytes: cycle(input, |input| bytes(input, 1))?,
        // Fewer at a time would spend the run on copying output: the seeded tests go down to single bytes.
        send_bytes: cycle(input, |input| bytes(input, 100))?,
        defers: cycle(input, bool::arbitrary)?,
        order: cycle(input, |input| input.int_in_range(0..=7))?,
        ready_bytes: cycle(input, |input| Ok(bytes(input, 100)? as u64))?,
        copies: cycle(input, bool::arbitrary)?,
        parks: cycle(input, bool::arbitrary)?,
        batches: cycle(input, bool::arbitrary)?,
        fails: cycle(input, |input| input.ratio(1, 8))?,
        moves: (0..input.int_in_range(0..=3)?).map(|_| input.int_in_range(0..=3_000)).collect::<Result<_>>()?,
        travels: cycle(input, bool::arbitrary)?,
        hops: input.int_in_range(0..=20)?,
    })
}

fn cycle<'a, T: Copy>(
    input: &mut Unstructured<'a>,
    one: impl Fn(&mut Unstructured<'a>) -> Result<T>,
) -> Result<Cycle<T>> {
    let length = input.int_in_range(1..=3)?;
    Ok(Cycle::new((0..length).map(|_| one(input)).collect::<Result<_>>()?))
}

fn bytes(input: &mut Unstructured<'_>, least: usize) -> Result<usize> {
    let most = *input.choose(&[least, least * 100, 20_000])?;
    input.int_in_range(least..=most)
}

fn operation(input: &mut Unstructured<'_>) -> Result<Operation> {
    Ok(match input.int_in_range(0..=15)? {
        0 => Operation::End,
        1 => Operation::TimeOut,
        2 => Operation::BreakOff,
        3 => Operation::Drain,
        4 => Operation::DrainWorker,
        5 => Operation::MeetUnknown(input.int_in_range(0..=20)?),
        6 | 7 => Operation::Meet(u8::arbitrary(input)?),
        8 => Operation::ReadsAnswers(bool::arbitrary(input)?),
        9 => Operation::WaitMs(u16::arbitrary(input)?),
        10 | 11 => Operation::Send(Vec::arbitrary(input)?),
        _ => Operation::Phrase(u8::arbitrary(input)?),
    })
}

/// Any bytes are a picture or a fault. The first two say in which format, and what is asked for of it.
pub fn images(input: &[u8]) {
    const TYPES: [&str; 3] = ["image/jpeg", "image/png", "image/webp"];
    const QUERIES: [&str; 4] =
        ["scale=16", "crop=3:2&rotate=90&format=png", "smooth=2&dither=4&gamma=2", "crop=10,10,50,50&format=webp"];
    if let [which, what, bytes @ ..] = input {
        let parameters = [("pixels_max", "100000")];
        let query = QUERIES[usize::from(*what) % QUERIES.len()].to_owned();
        let mut content = Content { query: Some(query), ..Content::new(TYPES[usize::from(*which) % TYPES.len()]) };
        // The steps leave nothing that is larger, and each format has a head.
        let made = filtered("images", &parameters, &mut content, bytes);
        assert!(made.is_none_or(|made| !made.is_empty() && made.len() < 2 * 4 * 100_000));
    }
}

/// Any text is a query or an error, and any content has a text. The first line is the query, and what follows a page.
pub fn search(input: &[u8]) {
    let end = memchr::memchr(b'\n', input).unwrap_or(input.len());
    let (query, content) = (String::from_utf8_lossy(&input[..end]), input.get(end + 1..).unwrap_or_default());
    for media_type in ["text/html", "text/markdown"] {
        let (Ok(query), Some(text)) = (Query::parse(&query), Text::of(media_type, content)) else { continue };
        let found = query.matches(&text);
        query.excerpt(&text);
        // What it is understood as is the same query, where that is not too long.
        if let Ok(again) = Query::parse(&query.to_string()) {
            assert_eq!(again.matches(&text).is_some(), found.is_some());
        }
    }
}

/// A page says what it needs whatever it is, and no more than counts; each URL is one.
pub fn subresources(input: &[u8]) {
    let links = lamna_filter::subresources::links(input);
    assert!(links.subresources.len().max(links.pages.len()) <= lamna_filter::subresources::LINKS_MAX);
    let urls = links.subresources.iter().map(|one| &one.url).chain(&links.pages);
    urls.for_each(|url| assert!(!url.is_empty() && !url.contains('#'), "{url:?}"));
}

/// The sections of a page follow each other without gaps, and each is a page that can be asked for, whatever it is
/// written in.
pub fn structured(input: &[u8]) {
    let step = |name: &str| Step { name: name.into(), parameters: Default::default() };
    for (media_type, steps) in [
        ("text/html", &["structured"][..]),
        ("text/plain", &["structured"]),
        ("text/markdown", &["markdown", "structured"]),
    ] {
        let steps: Vec<Step> = steps.iter().map(|name| step(name)).collect();
        let chain = Chain::new(&steps).expect("they are filters");
        let source = chain.divides(&Content::new(media_type)).expect("it has sections");
        let Some(structure) = source.structure(input) else { continue };
        let mut at = 0;
        for section in &structure.sections {
            assert!(section.range.start == at && section.range.end >= at);
            at = section.range.end;
        }
        assert_eq!(at, input.len());
        let page = |recipe: &str| structure.excerpt(recipe).map(|excerpt| excerpt.map(|one| one.page_of(input)));
        assert!(page("outline").is_ok_and(|made| made.is_some()));
        if let (Some(last), false) = (structure.sections.last(), structure.has_base) {
            assert!(page(&format!("section={}", last.id)).is_ok_and(|made| made.is_some()));
        }
    }
}

/// A page is put together, or cannot be, with a bounded number of other files, all of which are what the page is.
pub fn include(input: &[u8]) {
    let chain = chain("include", &[]);
    let mut parts = Parts { path: "/page.html".into(), ..Parts::default() };
    for _ in 0..=100 {
        let mut content = Content { parts: Some(Arc::new(parts.clone())), ..Content::new("text/html") };
        let mut run = chain.start(&mut content, Bounds::whole(16 << 20)).expect("it is text");
        let mut made = Vec::new();
        match run.take(input, &mut made).and_then(|()| run.finish(&mut made)) {
            Err(Fault::Wants(wanted)) => {
                assert!(!wanted.is_empty());
                for path in wanted {
                    assert!(path.starts_with('/'));
                    assert!(parts.found.insert(path, Some(input.into())).is_none());
                }
            }
            _ => return,
        }
    }
    panic!("it wants for ever");
}

/// What is under a content coding becomes no larger than it may, however pieces are divided. The first two bytes say
/// which coding, and how long pieces are.
pub fn decompress(input: &[u8]) {
    const CODINGS: [Coding; 3] = [Coding::Gzip, Coding::Brotli, Coding::Zstd];
    if let [which, piece_bytes, bytes @ ..] = input {
        let coding = Some(CODINGS[usize::from(*which) % CODINGS.len()]);
        let parameters = [("bytes_max", "100000")];
        let whole = filtered("decompress", &parameters, &mut Content { coding, ..Content::new("text/plain") }, bytes);
        assert!(whole.as_ref().is_none_or(|made| made.len() <= 100_000));
        let chain = chain("decompress", &parameters);
        let mut run = chain.start(&mut Content { coding, ..Content::new("text/plain") }, BOUNDS).expect("it takes it");
        let mut made = Vec::new();
        let mut pieces = bytes.chunks(usize::from(*piece_bytes).max(1));
        let taken = pieces.try_for_each(|piece| run.take(piece, &mut made)).and_then(|()| run.finish(&mut made));
        assert_eq!(taken.ok().map(|()| made), whole);
    }
}

const BOUNDS: Bounds = Bounds { given: 1 << 24, held: 1 << 24 };

fn chain(name: &str, parameters: &[(&str, &str)]) -> Chain {
    let own = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    let step = Step { name: name.to_owned(), parameters: parameters.iter().map(own).collect() };
    Chain::new(&[step]).expect("there is such a filter")
}

/// What a filter makes; none if it is a fault.
fn filtered(name: &str, parameters: &[(&str, &str)], content: &mut Content, bytes: &[u8]) -> Option<Vec<u8>> {
    let mut run = chain(name, parameters).start(content, BOUNDS).expect("it takes it");
    let mut made = Vec::new();
    run.take(bytes, &mut made).and_then(|()| run.finish(&mut made)).ok().map(|()| made)
}
