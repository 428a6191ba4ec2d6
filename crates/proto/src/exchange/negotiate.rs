//! Proactive negotiation: which of the representations we have suits the client best (RFC 9110 12.5).
//!
//! Owns: content codings by `Accept-Encoding`, and media types by `Accept`. Never refuses: where the client accepts
//! nothing that we have, it gets the default rather than 406, as RFC 9110 12.5.1 and 12.5.3 permit. The caller adds
//! `Vary` (12.5.5). Allocates nothing; work is linear in the fields for each candidate.

use crate::parse::list;

/// A content coding (RFC 9110 8.4.1) that we can send.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Coding {
    /// No coding at all.
    Identity,
    /// `gzip`, RFC 1952.
    Gzip,
    /// `br`, RFC 7932.
    Brotli,
    /// `zstd`, RFC 8878.
    Zstd,
}

impl Coding {
    /// Every coding, the one that we would rather send first. Browsers accept all of these alike, and brotli is the
    /// smallest for the text that is worth compressing.
    pub const BY_PREFERENCE: [Coding; 4] = [Coding::Brotli, Coding::Zstd, Coding::Gzip, Coding::Identity];

    /// The name in `Content-Encoding` (which never carries `identity`) and `Accept-Encoding`.
    pub const fn name(self) -> &'static str {
        match self {
            Coding::Identity => "identity",
            Coding::Gzip => "gzip",
            Coding::Brotli => "br",
            Coding::Zstd => "zstd",
        }
    }

    /// The coding of a name. Names are case-insensitive, and `x-gzip` is `gzip` (RFC 9110 8.4.1 and 8.4.1.3).
    pub fn from_name(name: &[u8]) -> Option<Coding> {
        if name.eq_ignore_ascii_case(b"x-gzip") {
            return Some(Coding::Gzip);
        }
        Coding::BY_PREFERENCE.into_iter().find(|coding| name.eq_ignore_ascii_case(coding.name().as_bytes()))
    }
}

/// The codings in which a representation can be had. Identity always belongs to it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct CodingSet(u8);

impl CodingSet {
    /// Nothing but the representation itself.
    pub const IDENTITY: CodingSet = CodingSet(0);

    /// Everything that we know of.
    pub const ALL: CodingSet = CodingSet::IDENTITY.with(Coding::Gzip).with(Coding::Brotli).with(Coding::Zstd);

    /// This set and one coding more.
    #[must_use]
    pub const fn with(self, coding: Coding) -> CodingSet {
        CodingSet(self.0 | CodingSet::bit(coding))
    }

    /// Whether a coding can be had.
    pub const fn contains(self, coding: Coding) -> bool {
        self.0 & CodingSet::bit(coding) == CodingSet::bit(coding)
    }

    /// The set as a number, for keeping it in an atomic.
    pub const fn bits(self) -> u8 {
        self.0
    }

    /// The set that [`CodingSet::bits`] gave.
    pub const fn from_bits(bits: u8) -> CodingSet {
        CodingSet(bits & CodingSet::ALL.0)
    }

    const fn bit(coding: Coding) -> u8 {
        match coding {
            Coding::Identity => 0,
            Coding::Gzip => 1,
            Coding::Brotli => 2,
            Coding::Zstd => 4,
        }
    }
}

/// The coding to send, given the lines of `Accept-Encoding` (RFC 9110 12.5.3); no lines mean that there is no such
/// field.
///
/// The highest quality wins; among equals, [`Coding::BY_PREFERENCE`]. A coding that is named twice counts as at first.
/// Malformed members are ignored. Identity needs no mention, but gives way to all that is mentioned.
///
/// If nothing that is available is acceptable, the answer is identity, as RFC 9110 12.5.3 permits. Without the field
/// every coding is acceptable, and identity is what each client is certain to read.
pub fn select_coding<'a>(accept_encoding: impl Iterator<Item = &'a [u8]>, available: CodingSet) -> Coding {
    choose(accept_encoding, Coding::BY_PREFERENCE.into_iter().filter(|&coding| available.contains(coding)))
}

/// The same with a preference of one's own: among equals, the first of `available`, to which identity belongs as the
/// last.
pub fn prefer_coding<'a>(accept_encoding: impl Iterator<Item = &'a [u8]>, available: &[Coding]) -> Coding {
    choose(accept_encoding, available.iter().copied().chain([Coding::Identity]))
}

fn choose<'a>(accept_encoding: impl Iterator<Item = &'a [u8]>, available: impl Iterator<Item = Coding>) -> Coding {
    let mut accepted = AcceptedCodings::default();
    for member in accept_encoding.flat_map(list::members) {
        accepted.note(member);
    }
    let mut best = (Coding::Identity, 0);
    for coding in available {
        let quality = accepted.quality(coding);
        if quality > best.1 {
            best = (coding, quality);
        }
    }
    best.0
}

/// The index of the candidate that the lines of `Accept` prefer (RFC 9110 12.5.1); no lines mean that there is no such
/// field. Candidates are media types without parameters, such as `text/html`, the default first: it wins ties, and also
/// if none is acceptable. The answer is 0 if there are no candidates.
///
/// The quality of a candidate is that of the most specific range that matches it, and the highest among equally
/// specific ones. Parameters of a range other than the weight are ignored: the candidates have none to tell apart.
pub fn prefer_media<'a>(accept: impl Iterator<Item = &'a [u8]> + Clone, candidates: &[&str]) -> usize {
    let mut best = (0, 0);
    for (index, candidate) in candidates.iter().enumerate() {
        let quality = media_quality(accept.clone(), candidate);
        if quality > best.1 {
            best = (index, quality);
        }
    }
    best.0
}

/// Whether the lines of `Accept` take `media_type`, whatever they prefer to it; false where there is no such field.
pub fn accepts_media<'a>(accept: impl Iterator<Item = &'a [u8]>, media_type: &str) -> bool {
    media_quality(accept, media_type) > 0
}

/// In thousandths: that of the most specific range that matches, and the highest among equally specific ones.
fn media_quality<'a>(accept: impl Iterator<Item = &'a [u8]>, media_type: &str) -> u16 {
    let ranges = accept.flat_map(list::members).filter_map(MediaRange::parse);
    let matching = ranges.filter_map(|range| Some((range.specificity(media_type)?, range.quality)));
    matching.max().map_or(0, |(_, quality)| quality)
}

/// The qualities of `Accept-Encoding`, in thousandths, of what it mentions.
#[derive(Default)]
struct AcceptedCodings {
    identity: Option<u16>,
    gzip: Option<u16>,
    brotli: Option<u16>,
    zstd: Option<u16>,
    any: Option<u16>,
}

impl AcceptedCodings {
    fn note(&mut self, member: &[u8]) {
        let (name, mut parameters) = list::parameters(member);
        let quality = match (parameters.next(), parameters.next()) {
            (None, _) => 1000,
            (Some(parameter), None) => match list::weight(parameter) {
                Some(Ok(quality)) => quality,
                _ => return,
            },
            _ => return,
        };
        let noted = match Coding::from_name(name) {
            Some(Coding::Identity) => &mut self.identity,
            Some(Coding::Gzip) => &mut self.gzip,
            Some(Coding::Brotli) => &mut self.brotli,
            Some(Coding::Zstd) => &mut self.zstd,
            None if name == b"*" => &mut self.any,
            None => return,
        };
        noted.get_or_insert(quality);
    }

    /// `*` stands for all that is not mentioned, identity included (RFC 9110 12.5.3).
    fn quality(&self, coding: Coding) -> u16 {
        let mentioned = match coding {
            Coding::Identity => self.identity,
            Coding::Gzip => self.gzip,
            Coding::Brotli => self.brotli,
            Coding::Zstd => self.zstd,
        };
        mentioned.or(self.any).unwrap_or(0)
    }
}

/// A member of `Accept`.
struct MediaRange<'a> {
    /// `type/subtype`, `type/*` or `*/*`.
    name: &'a [u8],
    /// Thousandths.
    quality: u16,
}

impl<'a> MediaRange<'a> {
    /// Anything after the weight was once an extension, and is ignored.
    fn parse(member: &'a [u8]) -> Option<MediaRange<'a>> {
        let (name, mut parameters) = list::parameters(member);
        let quality = parameters.find_map(list::weight).unwrap_or(Ok(1000)).ok()?;
        Some(MediaRange { name, quality })
    }

    /// How exactly the range names the candidate, or `None` if it does not.
    fn specificity(&self, candidate: &str) -> Option<u8> {
        let candidate = candidate.as_bytes();
        if self.name.eq_ignore_ascii_case(candidate) {
            return Some(2);
        }
        let major = self.name.strip_suffix(b"/*")?;
        if major == b"*" {
            return Some(0);
        }
        let (prefix, rest) = candidate.split_at_checked(major.len())?;
        (prefix.eq_ignore_ascii_case(major) && rest.starts_with(b"/")).then_some(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn selected(lines: &[&str], available: CodingSet) -> Coding {
        select_coding(lines.iter().map(|line| line.as_bytes()), available)
    }

    fn of_all(line: &str) -> &'static str {
        selected(&[line], CodingSet::ALL).name()
    }

    fn preferred(lines: &[&str], candidates: &[&'static str]) -> &'static str {
        candidates[prefer_media(lines.iter().map(|line| line.as_bytes()), candidates)]
    }

    // RFC 9110 12.5.3.
    #[test]
    fn without_the_field_or_with_an_empty_one_nothing_is_coded() {
        assert_eq!(selected(&[], CodingSet::ALL), Coding::Identity);
        assert_eq!(of_all(""), "identity");
        assert_eq!(of_all(" , "), "identity");
    }

    #[test]
    fn among_equals_brotli_is_before_zstd_before_gzip_before_identity() {
        assert_eq!(of_all("gzip, deflate, br, zstd"), "br");
        assert_eq!(of_all("identity, gzip, zstd"), "zstd");
        assert_eq!(of_all("identity;q=0.5, gzip;q=0.5"), "gzip");
        assert_eq!(of_all("*"), "br");
    }

    // RFC 9110 12.4.2.
    #[test]
    fn the_highest_quality_wins() {
        assert_eq!(of_all("br;q=0.5, gzip;q=0.501"), "gzip");
        assert_eq!(of_all("br ; Q=0.5,gzip"), "gzip");
        assert_eq!(of_all("gzip;q=0.5, identity"), "identity");
        assert_eq!(of_all("gzip;q=0.001"), "gzip");
        assert_eq!(selected(&["gzip;q=0.5", "br;q=0.7"], CodingSet::ALL), Coding::Brotli);
    }

    #[test]
    fn with_a_preference_of_ones_own_the_first_of_equals_wins() {
        let preferred = |line: &str, codings: &[Coding]| prefer_coding([line.as_bytes()].into_iter(), codings);
        let own = [Coding::Gzip, Coding::Brotli];
        assert_eq!(preferred("br, zstd, gzip", &own), Coding::Gzip);
        assert_eq!(preferred("br, gzip;q=0.9", &own), Coding::Brotli);
        assert_eq!(preferred("zstd", &own), Coding::Identity);
        assert_eq!(preferred("identity, gzip;q=0.9", &own), Coding::Identity);
    }

    #[test]
    fn a_star_stands_for_what_is_not_mentioned() {
        assert_eq!(of_all("br;q=0, *;q=0.3"), "zstd");
        assert_eq!(of_all("*;q=0.3, gzip"), "gzip");
        assert_eq!(of_all("*;q=0, gzip;q=0.1"), "gzip");
        assert_eq!(of_all("*;q=0.5, identity;q=0.6"), "identity");
    }

    #[test]
    fn where_nothing_is_acceptable_identity_is_sent() {
        assert_eq!(of_all("identity;q=0"), "identity");
        assert_eq!(of_all("*;q=0"), "identity");
        assert_eq!(of_all("gzip;q=0"), "identity");
        assert_eq!(selected(&["br, identity;q=0"], CodingSet::IDENTITY.with(Coding::Gzip)), Coding::Identity);
    }

    // RFC 9110 8.4.1.3.
    #[test]
    fn names_ignore_case_and_x_gzip_is_gzip() {
        assert_eq!(of_all("X-GZip"), "gzip");
        assert_eq!(of_all("BR"), "br");
        assert_eq!(of_all("gzip;q=0.4, x-gzip, zstd;q=0.6"), "zstd");
    }

    #[test]
    fn malformed_and_unknown_members_are_ignored() {
        for line in
            ["gzip;q=2", "gzip;q", "gzip;q=0.5;q=1", "gzip;level=1", "gzip br", "deflate", "\"gzip\"", "gzip;q =1"]
        {
            assert_eq!(of_all(line), "identity", "{line}");
        }
        assert_eq!(of_all("br;q=1.5, gzip"), "gzip");
    }

    // RFC 9110 12.5.1: the example's qualities, as far as they do not depend on parameters.
    #[test]
    fn the_most_specific_media_range_decides() {
        let accept = &["text/*;q=0.3, text/plain;q=0.7, text/html;q=0.6, */*;q=0.5"];
        assert_eq!(preferred(accept, &["text/html", "text/plain"]), "text/plain");
        assert_eq!(preferred(accept, &["text/css", "image/jpeg"]), "image/jpeg");
        assert_eq!(preferred(accept, &["image/jpeg", "text/html"]), "text/html");
        assert_eq!(preferred(&["*/*, text/html;q=0"], &["text/html", "text/plain"]), "text/plain");
    }

    #[test]
    fn the_first_media_type_wins_ties_and_is_the_default() {
        let candidates = &["text/html", "application/json", "text/plain"];
        assert_eq!(preferred(&[], candidates), "text/html");
        assert_eq!(preferred(&[""], candidates), "text/html");
        assert_eq!(preferred(&["*/*"], candidates), "text/html");
        assert_eq!(preferred(&["image/png"], candidates), "text/html");
        assert_eq!(preferred(&["text/plain, text/html"], candidates), "text/html");
        assert_eq!(preferred(&["*/*;q=0"], candidates), "text/html");
        assert_eq!(prefer_media([&b"*/*"[..]].into_iter(), &[]), 0);
    }

    #[test]
    fn media_ranges_ignore_case_parameters_and_quoted_separators() {
        let candidates = &["text/html", "application/json"];
        assert_eq!(preferred(&["Application/JSON"], candidates), "application/json");
        assert_eq!(preferred(&["application/json;charset=utf-8"], candidates), "application/json");
        assert_eq!(preferred(&["a/b;x=\",text/html\"", "application/json;q=0.1"], candidates), "application/json");
        assert_eq!(preferred(&["text/html;q=0.1, APPLICATION/*;q=0.2;ext=1"], candidates), "application/json");
        assert_eq!(preferred(&["app/*, text/html;q=x, application/json;q=0.1"], candidates), "application/json");
    }

    proptest! {
        #[test]
        fn any_bytes_select_something_available(lines: Vec<Vec<u8>>, gzip: bool, brotli: bool) {
            let mut available = CodingSet::IDENTITY;
            if gzip { available = available.with(Coding::Gzip); }
            if brotli { available = available.with(Coding::Brotli); }
            prop_assert!(available.contains(select_coding(lines.iter().map(|line| &line[..]), available)));
            prop_assert!(prefer_media(lines.iter().map(|line| &line[..]), &["text/html", "text/plain"]) < 2);
        }

        #[test]
        fn how_members_are_spread_over_lines_does_not_matter(
            members in prop::collection::vec("(gzip|br|zstd|identity|\\*)(;q=(0|1|0\\.[0-9]{1,3}))?", 0..6),
        ) {
            let lines: Vec<_> = members.iter().map(String::as_str).collect();
            prop_assert_eq!(selected(&lines, CodingSet::ALL), selected(&[&members.join(", ")], CodingSet::ALL));
        }

        #[test]
        fn a_refused_coding_is_never_sent(qualities in prop::array::uniform3(0..=9_u8)) {
            let line = format!("br;q=0.{}, gzip;q=0.{}, zstd;q=0.{}", qualities[0], qualities[1], qualities[2]);
            let refused = match selected(&[&line], CodingSet::ALL) {
                Coding::Brotli => qualities[0] == 0,
                Coding::Gzip => qualities[1] == 0,
                Coding::Zstd => qualities[2] == 0,
                Coding::Identity => qualities != [0; 3],
            };
            prop_assert!(!refused);
        }
    }
}
