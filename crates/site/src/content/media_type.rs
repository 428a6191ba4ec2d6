//! The media type of a file by its name.
//!
//! Owns: finding the extension and looking it up in the table of `media_types`. Allocates nothing and does not look
//! into files: content is never sniffed, and responses say `nosniff` so that browsers do not either. Only whether text
//! is UTF-8 is looked at (`charset`).

use lamna_proto::exchange::negotiate::Coding;

use super::media_types::{ROWS, Row};

/// The media type that a file name implies for the content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MediaType {
    /// The value of Content-Type: type and subtype (RFC 9110 8.3.1), followed by `; charset=utf-8` where the content is
    /// text, which is taken to be UTF-8 unless it is something else.
    pub essence: &'static str,
    /// Whether compressing such content is usually worth it; false where the format is compressed already.
    pub compressible: bool,
}

impl MediaType {
    /// The type of a file whose name implies none: bytes (RFC 9110 8.3). Not compressed, as it may well be an archive.
    pub const UNKNOWN: MediaType = MediaType { essence: "application/octet-stream", compressible: false };
}

/// Longest extension that the table may hold, in bytes.
const EXTENSION_BYTES_MAX: usize = 16;

/// The media type of the file with this name, which may be a whole path. Only the last extension counts, in any case of
/// letters; a name without one, and a hidden file whose only dot is the first, is [`MediaType::UNKNOWN`].
///
/// Bounded by the length of the name and the logarithm of the table's.
pub fn by_name(file_name: &[u8]) -> MediaType {
    let mut lower_case = [0; EXTENSION_BYTES_MAX];
    extension(file_name)
        .and_then(|extension| {
            let key = lower_case.get_mut(..extension.len())?;
            key.copy_from_slice(extension);
            key.make_ascii_lowercase();
            look_up(key)
        })
        .map_or(MediaType::UNKNOWN, |&(_, essence, compressible)| MediaType { essence, compressible })
}

/// Whether the extension of a name, which may be a whole path, says what is in the file.
pub fn is_told_by(file_name: &[u8]) -> bool {
    by_name(file_name) != MediaType::UNKNOWN
}

/// The coding that the name of a file implies beside its media type. Of an archive (`.tar.gz`), or a copy of another
/// file (`.js.gz`), it implies none: such a file is meant to be stored as it is.
pub fn coding_by_name(file_name: &[u8]) -> Coding {
    let is_coded = extension(file_name).is_some_and(|extension| extension.eq_ignore_ascii_case(b"svgz"));
    if is_coded { Coding::Gzip } else { Coding::Identity }
}

/// The extension: the part behind the last dot of the last segment, if a character precedes the dot.
fn extension(file_name: &[u8]) -> Option<&[u8]> {
    let start = memchr::memrchr(b'/', file_name).map_or(0, |slash| slash + 1);
    let segment = &file_name[start..];
    match memchr::memrchr(b'.', segment)? {
        0 => None,
        dot => Some(&segment[dot + 1..]),
    }
}

fn look_up(extension: &[u8]) -> Option<&'static Row> {
    ROWS.binary_search_by(|(key, ..)| key.as_bytes().cmp(extension)).ok().map(|index| &ROWS[index])
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn essence(name: &str) -> &'static str {
        by_name(name.as_bytes()).essence
    }

    #[test]
    fn a_compressed_picture_has_its_coding_in_its_name_and_an_archive_has_not() {
        assert_eq!((essence("a.SVGZ"), coding_by_name(b"/x/a.SVGZ")), ("image/svg+xml", Coding::Gzip));
        for name in ["a.svg", "a.tar.gz", "a.tgz", "a.js.gz", "a.svg.gz", ".svgz", "svgz", ""] {
            assert_eq!(coding_by_name(name.as_bytes()), Coding::Identity, "{name}");
        }
    }

    #[test]
    fn the_table_is_sorted_unique_and_in_lower_case() {
        assert!(ROWS.len() >= 400, "{} extensions", ROWS.len());
        assert!(ROWS.windows(2).all(|pair| pair[0].0 < pair[1].0));
        for (extension, essence, _) in ROWS {
            assert!((1..=EXTENSION_BYTES_MAX).contains(&extension.len()), "{extension}");
            assert!(extension.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit()), "{extension}");
            let (kind, subtype) = essence.split_once('/').expect(extension);
            assert!(!kind.is_empty() && !subtype.is_empty() && essence.is_ascii(), "{extension}");
        }
    }

    #[test]
    fn text_declares_its_charset_and_is_compressible() {
        for (extension, essence, compressible) in ROWS {
            let declared = essence.ends_with("; charset=utf-8");
            assert_eq!(declared, essence.contains(';'), "{extension}");
            assert!(!declared || *compressible, "{extension}");
            // RTF is seven-bit text that names its own character set.
            assert!(declared || !essence.starts_with("text/") || *extension == "rtf", "{extension}");
        }
    }

    #[test]
    fn the_types_of_the_web_are_known() {
        assert_eq!(essence("index.html"), "text/html; charset=utf-8");
        assert_eq!(essence("app.js"), "text/javascript; charset=utf-8");
        assert_eq!(essence("app.mjs"), "text/javascript; charset=utf-8");
        assert_eq!(essence("app.js.map"), "application/json; charset=utf-8");
        assert_eq!(essence("style.css"), "text/css; charset=utf-8");
        assert_eq!(essence("logo.svg"), "image/svg+xml; charset=utf-8");
        assert_eq!(essence("feed.atom"), "application/atom+xml; charset=utf-8");
        assert_eq!(essence("site.webmanifest"), "application/manifest+json; charset=utf-8");
        assert_eq!(essence("a.woff2"), "font/woff2");
        assert_eq!(essence("favicon.ico"), "image/vnd.microsoft.icon");
        assert_eq!(essence("picture.avif"), "image/avif");
        assert_eq!(essence("film.mp4"), "video/mp4");
        assert_eq!(essence("module.wasm"), "application/wasm");
        assert_eq!(essence("paper.pdf"), "application/pdf");
        assert_eq!(essence("paper.odt"), "application/vnd.oasis.opendocument.text");
    }

    #[test]
    fn what_is_compressed_already_is_not_compressible() {
        for name in ["a.png", "a.jpg", "a.mp4", "a.zip", "a.gz", "a.br", "a.woff2", "a.docx", "a.epub"] {
            assert!(!by_name(name.as_bytes()).compressible, "{name}");
        }
        for name in ["a.html", "a.svg", "a.json", "a.wasm", "a.ttf", "a.bmp", "a.tar"] {
            assert!(by_name(name.as_bytes()).compressible, "{name}");
        }
    }

    #[test]
    fn only_the_last_extension_of_the_last_segment_counts_in_any_case() {
        assert_eq!(essence("PHOTO.JPG"), "image/jpeg");
        assert_eq!(essence("backup.tar.gz"), "application/gzip");
        assert_eq!(essence("/pages.html/a.PnG"), "image/png");
    }

    #[test]
    fn a_name_that_says_nothing_is_bytes() {
        for name in ["", ".", "README", ".html", "/a/.css", "a.", "/a.html/b", "a.unheardof", "a.abcdefghijklmnopqrst"]
        {
            assert_eq!(by_name(name.as_bytes()), MediaType::UNKNOWN, "{name}");
        }
        assert_eq!(by_name(b"a.\xff\xfe"), MediaType::UNKNOWN);
    }

    proptest! {
        #[test]
        fn any_name_has_a_type(name in proptest::collection::vec(any::<u8>(), 0..64)) {
            prop_assert!(by_name(&name).essence.contains('/'));
        }

        #[test]
        fn the_case_of_letters_does_not_matter(index in 0..ROWS.len(), upper in any::<u64>()) {
            let (extension, essence, compressible) = ROWS[index];
            let name: Vec<u8> = b"name.".iter().copied().chain(extension.bytes()).enumerate()
                .map(|(i, byte)| if upper >> i & 1 == 1 { byte.to_ascii_uppercase() } else { byte })
                .collect();
            prop_assert_eq!(by_name(&name), MediaType { essence, compressible });
        }
    }
}
