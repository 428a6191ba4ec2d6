//! Compressing a representation: which it is worth for, at which level, within which bounds.
//!
//! Owns: [`compress`], for content that is kept, and [`compress_quickly`], for content that is made for one moment.
//! Both are pure functions; their settings are [`Compression`](lamna_config::compression::Compression). Guarantees: the
//! same bytes under the same suffix, so that a suffix may be part of a strong validator; output that is not clearly
//! smaller is given up before it is held whole. Does not decide when or where: `cache::compressor` does.

use lamna_filter::{Effort, encode};
use lamna_proto::exchange::negotiate::Coding;
pub use lamna_proto::exchange::negotiate::CodingSet;

/// How much work each coding is worth.
struct Levels {
    brotli: u32,
    zstd: u32,
    gzip: u32,
}

/// Good ones, because it is done once. Brotli's highest two take ten times as long for a few per cent.
const KEPT: Levels = Levels { brotli: 9, zstd: 17, gzip: 9 };
/// Quick ones, because a client waits, and the result is gone in a moment.
const QUICK: Levels = Levels { brotli: 4, zstd: 3, gzip: 4 };
/// A window of 4 MiB: the most that is compressed by default.
const BROTLI_WINDOW_BITS: u32 = 22;
/// Decoders that browsers have refuse larger windows than 8 MiB (RFC 9659 3).
const ZSTD_WINDOW_BITS: u32 = 23;
/// Compressed content has to be smaller than the original by one part in this many, or it is not worth a variant.
const WORTH_SHARE: usize = 20;

/// The suffix of the validator of content under `coding`. It names the level, because another level makes other bytes.
pub fn suffix(coding: Coding) -> String {
    let level = match coding {
        Coding::Identity => 0,
        Coding::Gzip => KEPT.gzip,
        Coding::Brotli => KEPT.brotli,
        Coding::Zstd => KEPT.zstd,
    };
    format!("{}{level}", coding.name())
}

/// `content` under `coding`, or nothing if it is not worth it. Bounded: no more than `content` is held.
pub fn compress(coding: Coding, content: &[u8]) -> Option<Vec<u8>> {
    compress_at(&KEPT, coding, content)
}

/// The same at a fraction of the work, for a somewhat larger result. It must not carry a validator with [`suffix`].
pub fn compress_quickly(coding: Coding, content: &[u8]) -> Option<Vec<u8>> {
    compress_at(&QUICK, coding, content)
}

fn compress_at(levels: &Levels, coding: Coding, content: &[u8]) -> Option<Vec<u8>> {
    let bytes_max = content.len() - content.len() / WORTH_SHARE;
    let (level, window_bits) = match coding {
        Coding::Identity => return None,
        Coding::Gzip => (levels.gzip, 0),
        Coding::Brotli => (levels.brotli, BROTLI_WINDOW_BITS),
        Coding::Zstd => (levels.zstd, zstd_window_bits(content.len())),
    };
    let effort = Effort { level, window_bits, content_bytes: Some(content.len()) };
    encode(coding, &effort, content, bytes_max).filter(|compressed| compressed.len() < bytes_max)
}

/// The smallest window that covers the content: a larger one costs the decoder memory.
fn zstd_window_bits(length: usize) -> u32 {
    (usize::BITS - length.leading_zeros()).clamp(10, ZSTD_WINDOW_BITS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use lamna_config::compression::{CODINGS, CodingSet, Compression};
    use proptest::prelude::*;
    use std::io::Read;

    fn decompress(coding: Coding, bytes: &[u8]) -> Vec<u8> {
        let mut content = Vec::new();
        match coding {
            Coding::Gzip => flate2::read::GzDecoder::new(bytes).read_to_end(&mut content).map(drop),
            Coding::Brotli => brotli::Decompressor::new(bytes, 4096).read_to_end(&mut content).map(drop),
            Coding::Zstd => zstd::stream::copy_decode(bytes, &mut content),
            Coding::Identity => Ok(()),
        }
        .expect("what was compressed can be decompressed");
        content
    }

    #[test]
    fn what_does_not_become_smaller_is_not_worth_it() {
        let noise = std::iter::successors(Some(1u64), |last| {
            let one = last ^ (last << 13);
            let two = one ^ (one >> 7);
            Some(two ^ (two << 17))
        });
        let content: Vec<u8> = noise.take(10_000).map(|number| number as u8).collect();
        for coding in CODINGS {
            assert_eq!(compress(coding, &content), None, "{coding:?}");
            assert_eq!(compress(coding, b""), None, "{coding:?}");
        }
    }

    #[test]
    fn codings_are_named_as_in_the_field() {
        assert_eq!(Compression::default().codings_text(), "br,zstd,gzip");
        assert_eq!(Compression::OFF.codings_text(), "off");
        assert_eq!(
            Compression::codings_from_text("gzip, br"),
            Ok(CodingSet::IDENTITY.with(Coding::Gzip).with(Coding::Brotli))
        );
        assert_eq!(Compression::codings_from_text("off"), Ok(CodingSet::IDENTITY));
        assert!(Compression::codings_from_text("gzip,deflate").is_err());
        assert!(Compression::codings_from_text("").is_err());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        #[test]
        fn what_is_compressed_is_smaller_always_the_same_and_decompresses_to_the_content(
            words in prop::collection::vec("[a-f]{1,9}", 100..800),
        ) {
            let content = words.join(" ").into_bytes();
            for coding in CODINGS {
                let compressed = compress(coding, &content).expect("few letters compress well");
                prop_assert!(compressed.len() < content.len());
                prop_assert_eq!(compress(coding, &content), Some(compressed.clone()));
                prop_assert_eq!(decompress(coding, &compressed), content.clone());
                let quickly = compress_quickly(coding, &content).expect("few letters compress well");
                prop_assert_eq!(decompress(coding, &quickly), content.clone());
            }
        }
    }
}
