//! Which stream is sent from next (RFC 9218).
//!
//! Owns: reading the Priority field and PRIORITY_UPDATE, and the choice among streams that are ready. Does not know
//! streams.

/// The priority of a response, as the client says it (RFC 9218 4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Priority {
    /// 0 to 7; 0 is the most urgent.
    pub(super) urgency: u8,
    /// Whether parts of it are of use: others of its urgency may be sent between them.
    pub(super) incremental: bool,
}

impl Default for Priority {
    fn default() -> Priority {
        Priority { urgency: 3, incremental: false }
    }
}

impl Priority {
    /// The priority after the value of a Priority field: a dictionary (RFC 9651 3.2). A malformed member, or one out of
    /// its bounds, is ignored; the last one holds.
    pub(super) fn said(self, value: &[u8]) -> Priority {
        let mut priority = self;
        for member in value.split(|&byte| byte == b',') {
            let member = member.trim_ascii();
            let item = member.split(|&byte| byte == b';').next().unwrap_or_default().trim_ascii_end();
            match item {
                [b'u', b'=', digit @ b'0'..=b'7'] => priority.urgency = digit - b'0',
                b"i" | b"i=?1" => priority.incremental = true,
                b"i=?0" => priority.incremental = false,
                _ => {}
            }
        }
        priority
    }
}

/// A stream that could be sent from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Candidate {
    pub(super) priority: Priority,
    /// Bytes of content that are still to be sent.
    pub(super) remaining: u64,
    /// When it was sent from last, in turns.
    pub(super) served: u64,
    pub(super) id: u32,
}

/// The place of the one to send from: the most urgent. Of those, responses that are of use only when they are whole are
/// sent one after the other, the shortest first; those of which parts are of use take turns. Where there are both, that
/// with less to send is first, so that none waits for ever.
pub(super) fn choose(candidates: impl Iterator<Item = (usize, Candidate)>) -> Option<usize> {
    let (mut whole, mut parts) = (None::<(usize, Candidate)>, None::<(usize, Candidate)>);
    for (at, one) in candidates {
        let (best, key): (_, fn(&Candidate) -> _) = match one.priority.incremental {
            true => (&mut parts, |one| (one.priority.urgency, one.served, one.id)),
            false => (&mut whole, |one| (one.priority.urgency, one.remaining, one.id)),
        };
        if best.as_ref().is_none_or(|(_, other)| key(&one) < key(other)) {
            *best = Some((at, one));
        }
    }
    let key = |one: &Candidate| (one.priority.urgency, one.remaining, one.id);
    match (whole, parts) {
        (Some((at, one)), Some((_, other))) if key(&one) < key(&other) => Some(at),
        (_, Some((at, _))) | (Some((at, _)), None) => Some(at),
        (None, None) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn rfc_9218_4_parameters_are_read_and_what_is_invalid_is_not_said() {
        let priority = |urgency, incremental| Priority { urgency, incremental };
        for (value, expected) in [
            ("", priority(3, false)),
            ("u=0", priority(0, false)),
            ("u=7, i", priority(7, true)),
            ("i=?1,u=5", priority(5, true)),
            ("i, i=?0", priority(3, false)),
            ("u=8", priority(3, false)),
            ("u=-1", priority(3, false)),
            ("u=1;x=2, i;y", priority(1, true)),
            ("u=2,u=6", priority(6, false)),
            ("U=1, x=\"u=1\"", priority(3, false)),
        ] {
            assert_eq!(Priority::default().said(value.as_bytes()), expected, "{value}");
        }
    }

    fn one(urgency: u8, incremental: bool, remaining: u64, served: u64, id: u32) -> Candidate {
        Candidate { priority: Priority { urgency, incremental }, remaining, served, id }
    }

    #[test]
    fn urgency_comes_first_then_the_shortest_and_parts_take_turns() {
        let chosen = |candidates: &[Candidate]| choose(candidates.iter().copied().enumerate());
        assert_eq!(chosen(&[]), None);
        assert_eq!(chosen(&[one(3, false, 1, 0, 1), one(2, false, 9, 0, 3)]), Some(1));
        assert_eq!(chosen(&[one(3, false, 9, 0, 1), one(3, false, 8, 0, 3)]), Some(1));
        assert_eq!(chosen(&[one(3, false, 9, 0, 1), one(3, false, 9, 0, 3)]), Some(0));
        assert_eq!(chosen(&[one(3, true, 1, 5, 1), one(3, true, 9, 4, 3)]), Some(1));
        assert_eq!(chosen(&[one(3, true, 5, 0, 1), one(3, false, 6, 0, 3)]), Some(0));
        assert_eq!(chosen(&[one(3, true, 5, 0, 1), one(3, false, 4, 0, 3)]), Some(1));
        assert_eq!(chosen(&[one(4, true, 5, 0, 1), one(3, false, 9, 0, 3)]), Some(1));
    }

    proptest! {
        #[test]
        fn any_value_can_be_read(value: Vec<u8>) {
            prop_assert!(Priority::default().said(&value).urgency <= 7);
        }
    }
}
