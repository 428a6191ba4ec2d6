//! What must hold for whatever requests and answers say about caches.
//!
//! Owns: the check. The seeded runs are in `caching`, the fuzzer's in `fuzz/`.

use lamna_proto::caching::{Facts, Given, Settings, Use, Varies, keepable, usable};
use lamna_proto::gateway::fields::{Fields, LineEnds};

/// `input` is the lines of a request, a zero byte, and the lines of its answer. Nothing panics; whatever else an answer
/// says, `private` keeps it from being kept; what is kept is not used longer because the request asks for less; and
/// equal requests select the same.
pub(crate) fn cache_control(input: &[u8]) {
    let (request, answer) = match input.iter().position(|byte| *byte == 0) {
        Some(at) => (&input[..at], &input[at + 1..]),
        None => (input, &b""[..]),
    };
    let (Some(request), Some(answer)) = (lines(request), lines(answer)) else { return };
    let facts = Facts::of(true, of(&request), false, |name| name.starts_with(b"_"));
    let judge = |lines: &[u8]| {
        let given = Given { status: 200, fields: of(lines), unix_seconds: 784_111_777, delay_s: 1 };
        keepable(&facts, &given, &Settings { fresh_s: Some(5), stale_if_error_s: 5 })
    };
    let private = [&answer[..], b"Cache-Control: private\r\n"].concat();
    assert!(judge(&private).is_err(), "what is private is not kept");
    assert!(judge(&[&private[..], b"Cache-Control: public, max-age=9\r\n"].concat()).is_err());
    if let Ok(terms) = judge(&answer) {
        let strict = Facts { directives: Default::default(), ..facts };
        for age_ms in [0, 1, 999, 5_000, u64::MAX] {
            let is_used = |facts| matches!(usable(&terms, age_ms, facts), Use::Fresh);
            assert!(is_used(&strict) || !is_used(&facts), "a request makes nothing fresh");
        }
    }
    if let Varies::By(names) = Varies::of(of(&answer)) {
        let (mut one, mut other) = (Vec::new(), Vec::new());
        names.write(of(&request), &mut one);
        names.write(of(&request), &mut other);
        assert_eq!(one, other);
        assert!(names.iter().zip(names.iter().skip(1)).all(|(one, next)| one < next));
    }
}

/// The lines, if they are fields: each that is one, with its end.
fn lines(text: &[u8]) -> Option<Vec<u8>> {
    let lines = text.split(|byte| *byte == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line));
    let text: Vec<u8> = lines.filter(|line| !line.is_empty()).flat_map(|line| [line, b"\r\n"].concat()).collect();
    Fields::check(&text, LineEnds::CrLf).is_ok().then_some(text)
}

fn of(lines: &[u8]) -> Fields<'_> {
    Fields::check(lines, LineEnds::CrLf).expect("they were checked")
}
