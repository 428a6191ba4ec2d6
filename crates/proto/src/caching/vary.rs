//! `Vary` (RFC 9110 12.5.5, RFC 9111 4.1): which fields of a request select among the answers of one target.
//!
//! Owns: [`VaryNames`], and the part of a key that is made of their values. Guarantees: requests that differ in a field
//! that is named have different parts, but for white space between members, and for case where the field has none;
//! writing a part allocates nothing but room for it.

use crate::gateway::fields::Fields;
use crate::gateway::forwarding;
use crate::parse::list;

/// The names, in lower case, in order, each once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VaryNames(Box<[Box<[u8]>]>);

/// The dependence of answers on requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Varies {
    /// Nothing but the target.
    Never,
    /// These fields.
    By(VaryNames),
    /// Something that is in no request, such as who the client is, or too much.
    Always,
}

/// More names than any application has that means it.
const NAMES_MAX: usize = 16;
/// Fields in which neither case nor white space mean anything.
const CASELESS: [&[u8]; 4] = [b"accept", b"accept-encoding", b"accept-language", b"accept-charset"];

impl Varies {
    /// The dependence of the answer with these fields.
    pub fn of(fields: Fields<'_>) -> Varies {
        let mut names: Vec<Box<[u8]>> = Vec::new();
        for member in fields.values("vary").flat_map(list::members) {
            if member == b"*" || names.len() == NAMES_MAX {
                return Varies::Always;
            }
            let name = member.to_ascii_lowercase().into_boxed_slice();
            if forwarding::tells_of_client(&name) {
                return Varies::Always;
            }
            if let Err(at) = names.binary_search(&name) {
                names.insert(at, name);
            }
        }
        if names.is_empty() { Varies::Never } else { Varies::By(VaryNames(names.into())) }
    }
}

impl VaryNames {
    /// The names.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        self.0.iter().map(|name| &**name)
    }

    /// Bytes of memory.
    pub fn memory_bytes(&self) -> usize {
        self.0.iter().map(|name| size_of_val(name) + name.len()).sum()
    }

    /// Appends what a request with these fields selects by. A field that its client has named in `Connection` does not
    /// reach the application (RFC 9110 7.6.1), so that it selects nothing.
    pub fn write(&self, fields: Fields<'_>, out: &mut Vec<u8>) {
        for name in self.iter() {
            let is_caseless = CASELESS.contains(&name);
            let is_dropped =
                fields.values("connection").flat_map(list::members).any(|one| one.eq_ignore_ascii_case(name));
            let mut is_there = false;
            // Names are tokens, and so text.
            let text = if is_dropped { "" } else { std::str::from_utf8(name).unwrap_or_default() };
            for value in fields.values(text) {
                out.push(if is_there { b',' } else { PRESENT });
                is_there = true;
                write_value(value, is_caseless, out);
            }
            out.push(END);
        }
    }
}

/// No value has these bytes.
const PRESENT: u8 = 1;
const END: u8 = 0;

fn write_value(value: &[u8], is_caseless: bool, out: &mut Vec<u8>) {
    match is_caseless {
        true => out.extend(value.iter().filter(|byte| !matches!(byte, b' ' | b'\t')).map(u8::to_ascii_lowercase)),
        false => out.extend_from_slice(value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gateway::fields::LineEnds;
    use proptest::prelude::*;

    fn with<T>(text: &str, act: impl FnOnce(Fields<'_>) -> T) -> T {
        let text: String =
            text.split(" | ").filter(|line| !line.is_empty()).map(|line| format!("{line}\r\n")).collect();
        act(Fields::check(text.as_bytes(), LineEnds::CrLf).unwrap())
    }

    fn names(text: &str) -> VaryNames {
        match with(text, Varies::of) {
            Varies::By(names) => names,
            other => panic!("{text}: {other:?}"),
        }
    }

    fn part(names: &VaryNames, request: &str) -> Vec<u8> {
        let mut out = Vec::new();
        with(request, |fields| names.write(fields, &mut out));
        out
    }

    #[test]
    fn names_are_collected_and_an_asterisk_is_everything() {
        let collected = names("Vary: B, a | vary: A,,c");
        assert_eq!(collected.iter().collect::<Vec<_>>(), [b"a", b"b", b"c"]);
        assert_eq!(with("Vary: a, * ", Varies::of), Varies::Always);
        assert_eq!(with("X: a", Varies::of), Varies::Never);
        let many: Vec<String> = (0..20).map(|number| format!("x-{number}")).collect();
        assert_eq!(with(&format!("Vary: {}", many.join(",")), Varies::of), Varies::Always);
    }

    #[test]
    fn requests_select_the_same_if_they_mean_the_same() {
        let names = names("Vary: Accept-Encoding, X");
        for (one, other, are_same) in [
            ("Accept-Encoding: gzip, br", "accept-encoding: GZIP,br", true),
            ("Accept-Encoding: gzip | Accept-Encoding: br", "Accept-Encoding: gzip,br", true),
            ("Accept-Encoding: gzip", "Accept-Encoding: br", false),
            ("Accept-Encoding: gzip", "", false),
            ("X: a", "X: A", false),
            ("X: a | Connection: close, x", "", true),
            ("X: a | Connection: x", "X: a", false),
            ("X:", "", false),
            ("X: a | Y: b", "X: a", true),
        ] {
            assert_eq!(part(&names, one) == part(&names, other), are_same, "{one} and {other}");
        }
    }

    proptest! {
        #[test]
        fn different_values_never_make_the_same_part(
            one in proptest::collection::vec("[a-z,]{0,4}", 0..3), other in proptest::collection::vec("[a-z,]{0,4}", 0..3),
            swap: bool,
        ) {
            let names = names("Vary: x, y");
            let lines = |values: &[String], name: &str| values.iter().map(|value| format!("{name}: {value}")).collect::<Vec<_>>();
            let request = |values: &[String], swapped: bool| {
                let (first, second) = values.split_at(values.len() / 2);
                let (a, b) = if swapped { ("y", "x") } else { ("x", "y") };
                [lines(first, a), lines(second, b)].concat().join(" | ")
            };
            let combined = |request: &str| with(request, |fields| ["x", "y"].map(|name| {
                let values: Vec<&[u8]> = fields.values(name).collect();
                (!values.is_empty()).then(|| values.join(&b','))
            }));
            let (one, other) = (request(&one, false), request(&other, swap));
            prop_assert_eq!(part(&names, &one) == part(&names, &other), combined(&one) == combined(&other));
        }
    }
}
