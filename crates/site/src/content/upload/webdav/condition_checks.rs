//! Properties of every value of `If`: for the property test of [`super::conditions`], and for a fuzz target.
//!
//! Owns: the check. It panics if something does not hold.

use super::conditions::{IfField, Predicate};

/// A value is read in one way, whatever its bytes: each token and tag that is asked about stands in it, spaces around
/// it change nothing, and saying it twice says no more.
pub(super) fn if_field(value: &[u8]) {
    let Some(field) = IfField::parse(value) else { return };
    let has = |part: &str| value.windows(part.len()).any(|one| one == part.as_bytes());
    let spaced = [b"  ", value, b"\t"].concat();
    assert!(IfField::parse(&spaced).as_ref() == Some(&field), "spaces change nothing");
    // Twice may be too many.
    let twice = IfField::parse(&[value, b" ", value].concat()).unwrap_or_else(|| field.clone());
    let mut asked = 0;
    // What holds is decided by the text alone, in three ways.
    for salt in 0..3_usize {
        let answer = |url: Option<&str>, predicate: Predicate<'_>| {
            let (Predicate::IsLocked(text) | Predicate::Has(text)) = predicate;
            (text.len() + url.map_or(0, str::len) + salt).is_multiple_of(2)
        };
        let holds = field.holds(|url, predicate| {
            asked += 1;
            let (Predicate::IsLocked(text) | Predicate::Has(text)) = predicate;
            assert!(has(text) && !text.is_empty() && url.is_none_or(has), "what is asked about stands in it");
            answer(url, predicate)
        });
        assert_eq!(twice.holds(answer), holds);
    }
    assert!(asked >= 3 && asked <= 3 * value.len());
    if !field.holds(|_, _| true) && !field.holds(|_, _| false) {
        assert!(has("ot"), "only a negation holds in neither");
    }
    assert!(!field.shows("") && !field.shows("no such token, which has too many words to be one"));
}
