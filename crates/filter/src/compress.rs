//! The filter `compress`: content under a coding that the client accepts.
//!
//! Owns: the choice of the coding, and encoders whose memory is bounded by small windows. For answers of applications:
//! files are compressed once for all, by the server's cache. Gives at once what it was given when nothing follows for a
//! while, so that events arrive when they happen.

use std::io;
use std::sync::Arc;

use lamna_proto::exchange::negotiate::{Coding, prefer_coding};

use crate::encoder::{Effort, Encoder};
use crate::{Content, Effect, Fault, Filter, Kind, Make, Parameters};

/// The row of the table.
pub(crate) const KIND: Kind = Kind {
    name: "compress",
    about: "Compresses answers of applications for clients that accept it (gzip, br, zstd).",
    version: 1,
    effect: Effect::None,
    required: &[],
    optional: &[
        ("bytes_min", "An answer that is known to have fewer bytes is left alone. Default: 1024"),
        ("codings", "Those that are used; among those that are accepted alike the first. Default: \"zstd,br,gzip\""),
        ("level", "From 1, which is quick, to 9. Default: 3"),
    ],
    make,
};

#[derive(Debug)]
struct Compress {
    codings: Vec<Coding>,
    level: u32,
    bytes_min: u64,
}

/// The window of zstd and brotli: 256 KiB, so that one answer holds little.
const WINDOW_BITS: u32 = 18;
const LEVEL: u32 = 3;
const BYTES_MIN: u64 = 1024;
const CODINGS: [Coding; 3] = [Coding::Zstd, Coding::Brotli, Coding::Gzip];

fn make(parameters: &Parameters) -> Result<Arc<dyn Make>, String> {
    let number = |name: &str, usual: u64, bounds: std::ops::RangeInclusive<u64>| match parameters.get(name) {
        None => Ok(usual),
        Some(text) => text
            .parse()
            .ok()
            .filter(|number| bounds.contains(number))
            .ok_or_else(|| format!("`{name}` is a number from {} to {}", bounds.start(), bounds.end())),
    };
    let codings = match parameters.get("codings") {
        None => CODINGS.to_vec(),
        Some(text) => text
            .split(',')
            .map(|name| CODINGS.into_iter().find(|coding| coding.name() == name.trim()))
            .collect::<Option<Vec<_>>>()
            .ok_or("`codings` are some of br, zstd and gzip with commas between")?,
    };
    let level = number("level", u64::from(LEVEL), 1..=9)? as u32;
    Ok(Arc::new(Compress { codings, level, bytes_min: number("bytes_min", BYTES_MIN, 0..=1 << 30)? }))
}

impl Make for Compress {
    fn start(&self, content: &mut Content) -> Option<Box<dyn Filter>> {
        let is_small = content.bytes.is_some_and(|bytes| bytes < self.bytes_min);
        if !content.is_plain() || is_small || !content.is_compressible() {
            return None;
        }
        // Also where nothing is accepted: another one may accept something.
        content.varies = true;
        let coding = prefer_coding([&*content.accepts].into_iter(), &self.codings);
        let effort = Effort { level: self.level, window_bits: WINDOW_BITS, content_bytes: None };
        let encoder = Encoder::new(coding, &effort, usize::MAX)?;
        content.coding = Some(coding);
        Some(Box::new(Compressing { encoder: Some(encoder) }))
    }

    fn reads(&self) -> Option<&'static str> {
        None
    }

    fn varies(&self) -> bool {
        true
    }
}

struct Compressing {
    /// None when the content has ended.
    encoder: Option<Encoder>,
}

impl Filter for Compressing {
    fn take(&mut self, piece: &[u8], out: &mut Vec<u8>) -> Result<(), Fault> {
        let Some(encoder) = &mut self.encoder else { return Ok(()) };
        encoder.write(piece).map_err(fault)?;
        out.append(encoder.output());
        Ok(())
    }

    fn flush(&mut self, out: &mut Vec<u8>) -> Result<(), Fault> {
        let Some(encoder) = &mut self.encoder else { return Ok(()) };
        encoder.flush().map_err(fault)?;
        out.append(encoder.output());
        Ok(())
    }

    fn finish(&mut self, out: &mut Vec<u8>) -> Result<(), Fault> {
        let Some(encoder) = self.encoder.take() else { return Ok(()) };
        out.append(&mut encoder.finish().map_err(fault)?);
        Ok(())
    }
}

/// They write to memory, and fail for want of it.
fn fault(error: io::Error) -> Fault {
    Fault::Content(format!("it cannot be compressed: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decompress::tests::decompressed;

    fn asked(accepts: &str, media_type: &str) -> Content {
        Content { accepts: accepts.as_bytes().into(), ..Content::new(media_type) }
    }

    fn parameters(given: &[(&str, &str)]) -> Parameters {
        given.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn the_coding_is_one_that_is_accepted() {
        for (accepts, codings, expected) in [
            ("gzip, br, zstd", "zstd,br,gzip", Some(Coding::Zstd)),
            ("gzip, br, zstd", "gzip,br", Some(Coding::Gzip)),
            ("gzip;q=0.5, br", "gzip,br", Some(Coding::Brotli)),
            ("zstd", "gzip,br", None),
            ("identity, gzip;q=0.5", "gzip", None),
            ("gzip;q=0", "gzip", None),
            ("", "gzip", None),
        ] {
            let make = make(&parameters(&[("codings", codings)])).unwrap();
            let mut content = asked(accepts, "text/plain");
            let filter = make.start(&mut content);
            assert!(content.varies, "{accepts}");
            assert_eq!(filter.map(|_| content.coding), expected.map(Some), "{accepts}");
        }
    }

    #[test]
    fn what_does_not_get_smaller_is_left_alone() {
        let make = make(&Parameters::new()).unwrap();
        let plain = asked("gzip", "text/plain");
        for mut content in [
            asked("gzip", "image/png"),
            Content { coding: Some(Coding::Gzip), ..plain.clone() },
            Content { coding: None, ..plain.clone() },
            Content { bytes: Some(1023), ..plain.clone() },
        ] {
            assert!(make.start(&mut content).is_none() && !content.varies, "{content:?}");
        }
        assert!(make.start(&mut Content { bytes: Some(1024), ..plain }).is_some());
    }

    #[test]
    fn what_was_given_can_be_read_whenever_nothing_follows() {
        for coding in CODINGS {
            let make = make(&parameters(&[("codings", coding.name()), ("level", "5")])).unwrap();
            let mut filter = make.start(&mut asked(coding.name(), "text/plain")).unwrap();
            let (mut made, mut content) = (Vec::new(), Vec::new());
            for event in 0..50 {
                let text = format!("data: event {event}\n\n");
                filter.take(text.as_bytes(), &mut made).unwrap();
                content.extend_from_slice(text.as_bytes());
                filter.flush(&mut made).unwrap();
                assert_eq!(decompressed(coding, &made, false).unwrap(), content, "{coding:?}");
            }
            filter.finish(&mut made).unwrap();
            assert_eq!(decompressed(coding, &made, true).unwrap(), content, "{coding:?}");
        }
    }

    #[test]
    fn wrong_parameters_are_refused_with_what_is_right() {
        for (name, value, said) in [
            ("level", "10", "`level` is a number from 1 to 9"),
            ("level", "high", "`level` is a number from 1 to 9"),
            ("codings", "gzip,deflate", "`codings` are some of br, zstd and gzip with commas between"),
            ("bytes_min", "-1", "`bytes_min` is a number from 0 to 1073741824"),
        ] {
            assert_eq!(make(&parameters(&[(name, value)])).unwrap_err(), said);
        }
    }
}
