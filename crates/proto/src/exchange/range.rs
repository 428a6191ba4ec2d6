//! Range requests: which bytes of a representation a `Range` field asks for (RFC 9110 14.1.2 and 14.2).
//!
//! Guarantees: every range given out is inside the representation and not empty; those of one answer are disjoint and
//! further apart than it would cost to send them separately, so they never add up to more than the representation; work
//! is linear in the field and quadratic in `ranges_max`. A single range, the common case, allocates nothing.
//!
//! Does not decide whether the field applies: the caller has seen that the method is GET (14.2), that the
//! preconditions and `If-Range` hold (`exchange::conditional`), and that the answer would be 200 without it.

use crate::parse::list;

/// A piece of a representation. `offset + length` is at most the representation's size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ByteRange {
    /// Bytes before the piece.
    pub offset: u64,
    /// Bytes of the piece, at least 1.
    pub length: u64,
}

impl ByteRange {
    /// The offset of the first byte after the piece.
    pub fn end(self) -> u64 {
        self.offset + self.length
    }
}

/// The answer to a `Range` field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Resolved {
    /// The field is ignored: 200 with the whole representation.
    Whole,
    /// No range is within the representation: 416 with `Content-Range: bytes */size` (RFC 9110 15.5.17).
    Unsatisfiable,
    /// 206 with one `Content-Range` (RFC 9110 15.3.7.1).
    Single(ByteRange),
    /// 206 as `multipart/byteranges` with at least two parts, in the order of the request (RFC 9110 15.3.7.2).
    Several(Vec<ByteRange>),
}

/// Ranges that are closer than this many bytes are sent as one: about what the delimiter and the fields of another part
/// would take (RFC 9110 15.3.7.2).
const PART_OVERHEAD_BYTES: u64 = 80;

/// Resolves a `Range` field against a representation of `size` bytes.
///
/// Ignored as a whole, as RFC 9110 14.2 permits or demands, are: other units than bytes; malformed fields, among them
/// those with a last position before the first; more than `ranges_max` ranges; and ranges that add up to more than the
/// representation, which no client needs and which a few bytes of request could use to make the answer large.
///
/// An empty representation satisfies no range of positions. A suffix of it is all of it, and since `Content-Range`
/// cannot say so, that is `Whole`.
pub fn resolve(field: &[u8], size: u64, ranges_max: usize) -> Resolved {
    let Some(set) = byte_range_set(field) else {
        return Resolved::Whole;
    };
    // The sum is wider than a size, so that no number of ranges overflows it.
    let (mut count, mut satisfiable, mut bytes) = (0, 0, 0_u128);
    let mut first = ByteRange { offset: 0, length: 0 };
    for member in list::members(set) {
        let Some(spec) = Spec::parse(member) else {
            return Resolved::Whole;
        };
        count += 1;
        let Some(range) = spec.locate(size) else {
            continue;
        };
        if satisfiable == 0 {
            first = range;
        }
        satisfiable += 1;
        bytes += u128::from(range.length);
    }
    let is_ignored = count == 0 || count > ranges_max || bytes > u128::from(size);
    match satisfiable {
        _ if is_ignored => Resolved::Whole,
        0 => Resolved::Unsatisfiable,
        _ if size == 0 => Resolved::Whole,
        1 => Resolved::Single(first),
        _ => coalesced(list::members(set).filter_map(|member| Spec::parse(member)?.locate(size))),
    }
}

/// The part after `bytes=`. Names of units are case-insensitive (RFC 9110 14.1).
fn byte_range_set(field: &[u8]) -> Option<&[u8]> {
    let (unit, set) = list::trim(field).split_at_checked(b"bytes=".len())?;
    unit.eq_ignore_ascii_case(b"bytes=").then_some(set)
}

/// One member of a range set, before it meets a representation (RFC 9110 14.1.1). Numbers that do not fit are the
/// largest that does: both lie behind the end of every representation.
enum Spec {
    /// From a position to the end.
    From(u64),
    /// From a position to another, both included. The second is not less than the first.
    FromTo(u64, u64),
    /// The last so many bytes.
    Suffix(u64),
}

impl Spec {
    fn parse(member: &[u8]) -> Option<Spec> {
        let dash = memchr::memchr(b'-', member)?;
        match (&member[..dash], &member[dash + 1..]) {
            (b"", suffix) => Some(Spec::Suffix(number(suffix)?)),
            (first, b"") => Some(Spec::From(number(first)?)),
            (first, last) => {
                let (first, last) = (number(first)?, number(last)?);
                (first <= last).then_some(Spec::FromTo(first, last))
            }
        }
    }

    /// The bytes of a representation that are meant, or `None` if the range is unsatisfiable (RFC 9110 14.1.2). Empty
    /// only for a suffix of an empty representation.
    fn locate(&self, size: u64) -> Option<ByteRange> {
        let (offset, end) = match *self {
            Spec::From(first) => (first, size),
            Spec::FromTo(first, last) => (first, last.saturating_add(1).min(size)),
            Spec::Suffix(0) => return None,
            Spec::Suffix(length) => {
                return Some(ByteRange { offset: size.saturating_sub(length), length: length.min(size) });
            }
        };
        (offset < size).then(|| ByteRange { offset, length: end - offset })
    }
}

fn number(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let append = |number: u64, digit: &u8| number.saturating_mul(10).saturating_add(u64::from(digit - b'0'));
    Some(digits.iter().fold(0, append))
}

fn coalesced(ranges: impl Iterator<Item = ByteRange>) -> Resolved {
    let mut parts = Vec::new();
    for range in ranges {
        insert(&mut parts, range);
    }
    match parts[..] {
        [range] => Resolved::Single(range),
        _ => Resolved::Several(parts),
    }
}

/// Adds a range, swallowing those near it; the union takes the place of the earliest of them, so that the order of the
/// request is kept where it means anything (RFC 9110 15.3.7.2). `parts` are far from each other before and after.
fn insert(parts: &mut Vec<ByteRange>, mut range: ByteRange) {
    let mut place = parts.len();
    while let Some(index) = parts.iter().position(|&part| are_near(part, range)) {
        range = union(range, parts.remove(index));
        place = place.min(index);
    }
    parts.insert(place, range);
}

fn are_near(a: ByteRange, b: ByteRange) -> bool {
    let gap = a.offset.max(b.offset).saturating_sub(a.end().min(b.end()));
    gap < PART_OVERHEAD_BYTES
}

/// The smallest range that holds both, and the gap between them.
fn union(a: ByteRange, b: ByteRange) -> ByteRange {
    let offset = a.offset.min(b.offset);
    ByteRange { offset, length: a.end().max(b.end()) - offset }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn resolved(field: &str, size: u64) -> Resolved {
        resolve(field.as_bytes(), size, 8)
    }

    fn single(offset: u64, length: u64) -> Resolved {
        Resolved::Single(ByteRange { offset, length })
    }

    fn several(parts: &[(u64, u64)]) -> Resolved {
        Resolved::Several(parts.iter().map(|&(offset, length)| ByteRange { offset, length }).collect())
    }

    // The examples of RFC 9110 14.1.2, for a representation of 10000 bytes.
    #[test]
    fn the_specification_s_examples_hold() {
        assert_eq!(resolved("bytes=0-499", 10_000), single(0, 500));
        assert_eq!(resolved("bytes=500-999", 10_000), single(500, 500));
        assert_eq!(resolved("bytes=-500", 10_000), single(9_500, 500));
        assert_eq!(resolved("bytes=9500-", 10_000), single(9_500, 500));
        assert_eq!(resolved("bytes=0-0,-1", 10_000), several(&[(0, 1), (9_999, 1)]));
        assert_eq!(
            resolved("bytes= 0-999, 4500-5499, -1000", 10_000),
            several(&[(0, 1_000), (4_500, 1_000), (9_000, 1_000)])
        );
        assert_eq!(resolved("bytes=500-600,601-999", 10_000), single(500, 500));
        assert_eq!(resolved("bytes=500-700,601-999", 10_000), single(500, 500));
    }

    // RFC 9110 14.1.2.
    #[test]
    fn ranges_are_cut_at_the_end_of_the_representation() {
        assert_eq!(resolved("bytes=90-200", 100), single(90, 10));
        assert_eq!(resolved("bytes=-200", 100), single(0, 100));
        assert_eq!(resolved("bytes=0-", 100), single(0, 100));
        assert_eq!(resolved("bytes=99-", 100), single(99, 1));
    }

    // RFC 9110 14.1.1 and 15.5.17.
    #[test]
    fn ranges_outside_of_the_representation_are_unsatisfiable() {
        for field in ["bytes=100-", "bytes=100-200", "bytes=-0", "bytes=100-,-0,500-600"] {
            assert_eq!(resolved(field, 100), Resolved::Unsatisfiable, "{field}");
        }
        assert_eq!(resolved("bytes=100-,5-6,-0", 100), single(5, 2));
    }

    // RFC 9110 14.2: unknown units and malformed sets are ignored.
    #[test]
    fn other_units_and_malformed_fields_are_ignored() {
        let fields = [
            "",
            "bytes",
            "bytes=",
            "bytes=,",
            "bytes= , ,",
            "bytes 0-1",
            "bytes =0-1",
            "lines=0-1",
            "bytes=-",
            "bytes=5",
            "bytes=5-4",
            "bytes=a-b",
            "bytes=0-1;2-3",
            "bytes=0--1",
            "bytes=+0-1",
            "bytes=0 -1",
            "bytes=0-1,x",
            "bytes=0x0-",
            "bytes=0-1-2",
            "bytes=--1",
        ];
        for field in fields {
            assert_eq!(resolved(field, 100), Resolved::Whole, "{field}");
        }
    }

    // RFC 9110 14.1 and 5.6.1.2.
    #[test]
    fn unit_names_ignore_case_and_lists_ignore_empty_members() {
        assert_eq!(resolved("BYTES=0-1", 100), single(0, 2));
        assert_eq!(resolved("bytes=,0-1\t, ,", 100), single(0, 2));
    }

    #[test]
    fn numbers_of_any_length_are_read() {
        let nines = "9".repeat(1_000);
        assert_eq!(resolved(&format!("bytes=0-{nines}"), 100), single(0, 100));
        assert_eq!(resolved(&format!("bytes=-{nines}"), 100), single(0, 100));
        assert_eq!(resolved(&format!("bytes={nines}-"), 100), Resolved::Unsatisfiable);
        assert_eq!(resolved(&format!("bytes={nines}-"), u64::MAX), Resolved::Unsatisfiable);
        assert_eq!(resolved(&format!("bytes={nines}-1"), 100), Resolved::Whole);
        assert_eq!(resolved(&format!("bytes=0{}1-1", "0".repeat(99)), 100), single(1, 1));
        assert_eq!(resolved("bytes=0-18446744073709551615", u64::MAX), single(0, u64::MAX));
    }

    // RFC 9110 14.2 and 17.15.
    #[test]
    fn too_many_or_too_greedy_ranges_are_ignored() {
        assert_eq!(resolve(b"bytes=0-0,200-200", 1_000, 2), several(&[(0, 1), (200, 1)]));
        assert_eq!(resolve(b"bytes=0-0,200-200,400-400", 1_000, 2), Resolved::Whole);
        assert_eq!(resolve(b"bytes=0-0,2000-,3000-", 1_000, 2), Resolved::Whole);
        assert_eq!(resolve(b"bytes=0-0", 1_000, 0), Resolved::Whole);
        assert_eq!(resolved("bytes=0-,0-", 1_000), Resolved::Whole);
        assert_eq!(resolved("bytes=0-,-1", u64::MAX), Resolved::Whole);
    }

    // RFC 9110 15.3.7.2.
    #[test]
    fn near_ranges_become_one_and_the_request_s_order_is_kept() {
        assert_eq!(resolved("bytes=0-9,89-99", 10_000), single(0, 100));
        assert_eq!(resolved("bytes=0-9,90-99", 10_000), several(&[(0, 10), (90, 10)]));
        assert_eq!(resolved("bytes=5000-5009,0-9", 10_000), several(&[(5_000, 10), (0, 10)]));
        assert_eq!(resolved("bytes=5000-5009,0-9,200-209,10-199", 10_000), several(&[(5_000, 10), (0, 210)]));
    }

    #[test]
    fn an_empty_representation_has_no_positions_but_is_its_own_suffix() {
        assert_eq!(resolved("bytes=0-", 0), Resolved::Unsatisfiable);
        assert_eq!(resolved("bytes=0-0", 0), Resolved::Unsatisfiable);
        assert_eq!(resolved("bytes=-0", 0), Resolved::Unsatisfiable);
        assert_eq!(resolved("bytes=-5", 0), Resolved::Whole);
        assert_eq!(resolved("bytes=0-,-5", 0), Resolved::Whole);
    }

    fn assert_sound(resolved: Resolved, size: u64) -> Result<(), TestCaseError> {
        let mut parts = match resolved {
            Resolved::Whole | Resolved::Unsatisfiable => return Ok(()),
            Resolved::Single(range) => vec![range],
            Resolved::Several(parts) => {
                prop_assert!(parts.len() >= 2);
                parts
            }
        };
        parts.sort_by_key(|part| part.offset);
        for part in &parts {
            prop_assert!(part.length > 0);
            prop_assert!(part.offset.checked_add(part.length).is_some_and(|end| end <= size));
        }
        for pair in parts.windows(2) {
            prop_assert!(pair[0].end() + PART_OVERHEAD_BYTES <= pair[1].offset);
        }
        Ok(())
    }

    proptest! {
        #[test]
        fn any_field_resolves_to_sound_ranges(field: Vec<u8>, size: u64) {
            assert_sound(resolve(&field, size, 8), size)?;
        }

        #[test]
        fn any_range_set_resolves_to_sound_ranges(
            members in prop::collection::vec("[ ]?([0-9]{0,3}-[0-9]{0,4}|-[0-9]{1,22}|[0-9]{1,22}-)?", 0..12),
            size in prop_oneof![0..2_000_u64, any::<u64>()],
        ) {
            assert_sound(resolved(&format!("bytes={}", members.join(",")), size), size)?;
        }

        #[test]
        fn every_requested_byte_is_sent(ranges in prop::collection::vec((0..5_000_u64, 0..300_u64), 1..8)) {
            let specs: Vec<_> = ranges.iter().map(|(first, more)| format!("{first}-{}", first + more)).collect();
            let parts = match resolved(&format!("bytes={}", specs.join(",")), 10_000) {
                Resolved::Single(range) => vec![range],
                Resolved::Several(parts) => parts,
                other => return Err(TestCaseError::fail(format!("{other:?}"))),
            };
            for (first, more) in ranges {
                let holds = |part: &ByteRange| part.offset <= first && first + more < part.end();
                prop_assert!(parts.iter().any(holds));
            }
        }
    }
}
