//! Encoders of the codings of HTTP, which write to memory.
//!
//! Owns: [`Encoder`], for pieces of a stream, and [`encode`], for content that is whole. No other crate has an encoder
//! in its hands: brotli's is generic, and the code that drops one is another instance of it, of 300 KB. Guarantees: the
//! output has a bound, and the same content makes the same bytes. Does not choose a coding, a level or a window.

use std::io::{self, Write};

use flate2::write::GzEncoder;
use lamna_proto::exchange::negotiate::Coding;

/// How an encoder goes about its work.
#[derive(Debug, Clone, Copy)]
pub struct Effort {
    /// A level of the coding.
    pub level: u32,
    /// The window of zstd and brotli, as a power of two.
    pub window_bits: u32,
    /// The length of the content, if it is known.
    pub content_bytes: Option<usize>,
}

/// `content` under `coding`. Nothing if that takes more than `bytes_max`, which is never held, if there is no coding,
/// or no memory.
pub fn encode(coding: Coding, effort: &Effort, content: &[u8], bytes_max: usize) -> Option<Vec<u8>> {
    let mut encoder = Encoder::new(coding, effort, bytes_max)?;
    encoder.write(content).ok()?;
    encoder.finish().ok()
}

/// An encoder of one stream of content.
pub(crate) struct Encoder(Kind);

enum Kind {
    Gzip(GzEncoder<Output>),
    Brotli(Box<brotli::CompressorWriter<Output>>),
    Zstd(zstd::stream::write::Encoder<'static, Output>),
}

/// The most that brotli's encoder gives at once.
const BUFFER_BYTES: usize = 16 << 10;

impl Encoder {
    /// An encoder that never holds more than `bytes_max` of output: what gives more fails. Nothing without a coding or
    /// memory.
    pub(crate) fn new(coding: Coding, effort: &Effort, bytes_max: usize) -> Option<Encoder> {
        let output = Output { bytes: Vec::new(), bytes_max, is_over: false };
        Some(Encoder(match coding {
            Coding::Identity => return None,
            // No name and no time: the same content makes the same bytes.
            Coding::Gzip => Kind::Gzip(GzEncoder::new(output, flate2::Compression::new(effort.level))),
            Coding::Brotli => Kind::Brotli(Box::new(brotli_encoder(output, effort))),
            Coding::Zstd => Kind::Zstd(zstd_encoder(output, effort).ok()?),
        }))
    }

    /// Takes more content.
    pub(crate) fn write(&mut self, piece: &[u8]) -> io::Result<()> {
        self.writer().write_all(piece)
    }

    /// Gives out what a decoder needs for all content that was taken.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        self.writer().flush()
    }

    /// The output that was given out, to be taken away.
    pub(crate) fn output(&mut self) -> &mut Vec<u8> {
        let output = match &mut self.0 {
            Kind::Gzip(encoder) => encoder.get_mut(),
            Kind::Brotli(encoder) => encoder.get_mut(),
            Kind::Zstd(encoder) => encoder.get_mut(),
        };
        &mut output.bytes
    }

    /// The end of the content: what is left of the output.
    pub(crate) fn finish(self) -> io::Result<Vec<u8>> {
        let output = match self.0 {
            Kind::Gzip(encoder) => encoder.finish()?,
            // It keeps to itself that its output was refused.
            Kind::Brotli(encoder) => encoder.into_inner(),
            Kind::Zstd(encoder) => encoder.finish()?,
        };
        if output.is_over { Err(io::ErrorKind::FileTooLarge.into()) } else { Ok(output.bytes) }
    }

    fn writer(&mut self) -> &mut dyn Write {
        match &mut self.0 {
            Kind::Gzip(encoder) => encoder,
            Kind::Brotli(encoder) => encoder,
            Kind::Zstd(encoder) => encoder,
        }
    }
}

fn brotli_encoder(output: Output, effort: &Effort) -> brotli::CompressorWriter<Output> {
    let parameters = brotli::enc::BrotliEncoderParams {
        quality: effort.level as i32,
        lgwin: effort.window_bits as i32,
        size_hint: effort.content_bytes.unwrap_or(0),
        ..Default::default()
    };
    brotli::CompressorWriter::with_params(output, BUFFER_BYTES, &parameters)
}

fn zstd_encoder(output: Output, effort: &Effort) -> io::Result<zstd::stream::write::Encoder<'static, Output>> {
    let mut encoder = zstd::stream::write::Encoder::new(output, effort.level as i32)?;
    if let Some(bytes) = effort.content_bytes {
        encoder.set_pledged_src_size(Some(bytes as u64))?;
    }
    encoder.window_log(effort.window_bits)?;
    Ok(encoder)
}

/// Output that refuses what goes beyond its bound.
struct Output {
    bytes: Vec<u8>,
    bytes_max: usize,
    is_over: bool,
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.is_over |= bytes.len() > self.bytes_max.saturating_sub(self.bytes.len());
        if self.is_over {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_beyond_the_bound_is_given_up_in_each_coding() {
        let effort = Effort { level: 4, window_bits: 18, content_bytes: None };
        let content: Vec<u8> = (0u32..20_000).map(|number| (number.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
        for coding in [Coding::Gzip, Coding::Brotli, Coding::Zstd] {
            let encoded = |bytes_max| encode(coding, &effort, &content, bytes_max);
            let length = encoded(usize::MAX).unwrap().len();
            assert_eq!(encoded(length).map(|bytes| bytes.len()), Some(length), "{coding:?}");
            assert_eq!(encoded(length - 1), None, "{coding:?}");
        }
    }
}
