//! The filter `decompress`: content that is under a coding as it is without, so that filters behind it can read it.
//!
//! Owns: decoders for gzip, br and zstd that give a bounded piece at a time, and what is too much: content that grows
//! more than so many times, or to more than so many bytes, ends in a fault. So does content that is malformed or ends
//! too early.

use std::sync::Arc;

use brotli::enc::StandardAlloc;
use brotli::{BrotliDecompressStream, BrotliResult, BrotliState};
use flate2::{Decompress as Inflate, FlushDecompress, Status};
use lamna_proto::exchange::negotiate::Coding;
use zstd::stream::raw::{DParameter, Decoder as ZstdDecoder, Operation};

use crate::{Content, Effect, Fault, Filter, Kind, Make, PIECE_BYTES, Parameters};

/// The row of the table.
pub(crate) const KIND: Kind = Kind {
    name: "decompress",
    about: "Decompresses answers of applications (gzip, br, zstd), for the filters behind it.",
    version: 1,
    effect: Effect::None,
    required: &[],
    optional: &[
        ("bytes_max", "Bytes that an answer may become at most. Default: 1073741824"),
        ("ratio_max", "How many times larger an answer may become, the first MiB aside. Default: 200"),
    ],
    make,
};

#[derive(Clone, Copy, Debug)]
struct Decompress {
    bytes_max: u64,
    ratio_max: u64,
}

/// For each answer, so much is no reason to look at the ratio.
const FREE_BYTES: u64 = 1 << 20;
/// The window of zstd in browsers (RFC 9659 3).
const ZSTD_WINDOW_BITS: u32 = 23;

fn make(parameters: &Parameters) -> Result<Arc<dyn Make>, String> {
    let number = |name: &str, usual: u64| match parameters.get(name).map(|text| text.parse()) {
        None => Ok(usual),
        Some(Ok(number)) if number > 0 => Ok(number),
        Some(_) => Err(format!("`{name}` is a number above 0")),
    };
    Ok(Arc::new(Decompress { bytes_max: number("bytes_max", 1 << 30)?, ratio_max: number("ratio_max", 200)? }))
}

impl Make for Decompress {
    fn start(&self, content: &mut Content) -> Option<Box<dyn Filter>> {
        let decoder = Decoder::new(content.coding?)?;
        content.coding = Some(Coding::Identity);
        Some(Box::new(Decompressing { of: *self, decoder, input: Vec::new(), read: 0, took: 0, gave: 0 }))
    }

    fn reads(&self) -> Option<&'static str> {
        Some("gzip, br, zstd")
    }
}

struct Decompressing {
    of: Decompress,
    decoder: Decoder,
    /// The input that it has taken, of which so much has been read.
    input: Vec<u8>,
    read: usize,
    took: u64,
    gave: u64,
}

impl Filter for Decompressing {
    fn take(&mut self, piece: &[u8], out: &mut Vec<u8>) -> Result<(), Fault> {
        // What was taken before has been read, as `more` has said.
        self.input.drain(..self.read);
        self.read = 0;
        self.input.extend_from_slice(piece);
        self.took += piece.len() as u64;
        self.more(out).map(drop)
    }

    fn more(&mut self, out: &mut Vec<u8>) -> Result<bool, Fault> {
        let at = out.len();
        out.resize(at + PIECE_BYTES, 0);
        let done = self.decoder.decode(&self.input[self.read..], &mut out[at..]);
        let (read, gave) = done.unwrap_or_default();
        out.truncate(at + gave);
        done.ok_or_else(|| Fault::Content("the answer is malformed under its content coding".into()))?;
        self.read += read;
        self.gave += gave as u64;
        if self.gave > self.of.bytes_max {
            return Err(Fault::TooLarge(self.of.bytes_max));
        }
        if self.gave > FREE_BYTES.saturating_add(self.took.saturating_mul(self.of.ratio_max)) {
            let most = self.of.ratio_max;
            return Err(Fault::Content(format!(
                "the answer gets more than {most} times larger under its content coding"
            )));
        }
        Ok(read > 0 || gave > 0)
    }

    fn finish(&mut self, _: &mut Vec<u8>) -> Result<(), Fault> {
        let is_whole = self.took == 0 || self.decoder.is_at_end() && self.read == self.input.len();
        let too_early = || Fault::Content("the answer ends too early for its content coding".into());
        if is_whole { Ok(()) } else { Err(too_early()) }
    }
}

enum Decoder {
    /// A member after the other; none between them.
    Gzip(Option<Box<Inflate>>),
    Brotli {
        state: Box<BrotliState<StandardAlloc, StandardAlloc, StandardAlloc>>,
        is_at_end: bool,
    },
    Zstd {
        decoder: ZstdDecoder<'static>,
        is_at_end: bool,
    },
}

impl Decoder {
    fn new(coding: Coding) -> Option<Decoder> {
        Some(match coding {
            Coding::Identity => return None,
            Coding::Gzip => Decoder::Gzip(Some(Box::new(Inflate::new_gzip(15)))),
            Coding::Brotli => {
                let alloc = StandardAlloc::default;
                Decoder::Brotli {
                    state: Box::new(BrotliState::new_strict(alloc(), alloc(), alloc())),
                    is_at_end: false,
                }
            }
            Coding::Zstd => {
                let mut decoder = ZstdDecoder::new().ok()?;
                decoder.set_parameter(DParameter::WindowLogMax(ZSTD_WINDOW_BITS)).ok()?;
                Decoder::Zstd { decoder, is_at_end: false }
            }
        })
    }

    /// How much has been read and given; none if the content is malformed.
    fn decode(&mut self, input: &[u8], out: &mut [u8]) -> Option<(usize, usize)> {
        match self {
            Decoder::Gzip(None) if input.is_empty() => Some((0, 0)),
            Decoder::Gzip(member) => {
                let inflate = member.get_or_insert_with(|| Box::new(Inflate::new_gzip(15)));
                let (read, gave) = (inflate.total_in(), inflate.total_out());
                let status = inflate.decompress(input, out, FlushDecompress::None).ok()?;
                let done = (inflate.total_in() - read) as usize;
                let made = (inflate.total_out() - gave) as usize;
                if status == Status::StreamEnd {
                    *member = None;
                }
                Some((done, made))
            }
            // Nothing may follow.
            Decoder::Brotli { is_at_end: true, .. } => input.is_empty().then_some((0, 0)),
            Decoder::Brotli { state, is_at_end } => {
                let (mut unread, mut read, mut room, mut gave, mut total) = (input.len(), 0, out.len(), 0, 0);
                let result =
                    BrotliDecompressStream(&mut unread, &mut read, input, &mut room, &mut gave, out, &mut total, state);
                match result {
                    BrotliResult::ResultFailure => return None,
                    BrotliResult::ResultSuccess => *is_at_end = true,
                    BrotliResult::NeedsMoreInput | BrotliResult::NeedsMoreOutput => {}
                }
                Some((read, gave))
            }
            Decoder::Zstd { is_at_end: true, .. } if input.is_empty() => Some((0, 0)),
            Decoder::Zstd { decoder, is_at_end } => {
                let status = decoder.run_on_buffers(input, out).ok()?;
                *is_at_end = status.remaining == 0;
                Some((status.bytes_read, status.bytes_written))
            }
        }
    }

    fn is_at_end(&self) -> bool {
        match self {
            Decoder::Gzip(member) => member.is_none(),
            Decoder::Brotli { is_at_end, .. } | Decoder::Zstd { is_at_end, .. } => *is_at_end,
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use std::io::Write;

    use crate::compress;
    use proptest::prelude::*;

    const CODINGS: [Coding; 3] = [Coding::Gzip, Coding::Brotli, Coding::Zstd];

    fn start(coding: Coding, given: &[(&str, &str)]) -> Box<dyn Filter> {
        let parameters = given.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let mut content = Content { coding: Some(coding), ..Content::new("text/plain") };
        let filter = make(&parameters).unwrap().start(&mut content).unwrap();
        assert!(content.is_plain());
        filter
    }

    /// The result of decoding `coded`, which has ended or has not.
    pub(crate) fn decompressed(coding: Coding, coded: &[u8], has_ended: bool) -> Result<Vec<u8>, Fault> {
        run(start(coding, &[]), coded, 1 << 20, has_ended)
    }

    fn run(mut filter: Box<dyn Filter>, coded: &[u8], piece_bytes: usize, has_ended: bool) -> Result<Vec<u8>, Fault> {
        let mut made = Vec::new();
        for piece in coded.chunks(piece_bytes) {
            let before = made.len();
            filter.take(piece, &mut made)?;
            assert!(made.len() - before <= PIECE_BYTES);
            while filter.more(&mut made)? {}
        }
        if has_ended {
            filter.finish(&mut made)?;
        }
        Ok(made)
    }

    fn compressed(coding: Coding, content: &[u8]) -> Vec<u8> {
        let parameters = [("codings".to_owned(), coding.name().to_owned())].into();
        let mut asked = Content { accepts: coding.name().as_bytes().into(), ..Content::new("text/plain") };
        let mut filter = (compress::KIND.make)(&parameters).unwrap().start(&mut asked).unwrap();
        let mut made = Vec::new();
        filter.take(content, &mut made).unwrap();
        filter.finish(&mut made).unwrap();
        made
    }

    #[test]
    fn a_bomb_is_given_up_before_it_is_large() {
        for coding in CODINGS {
            let bomb = compressed(coding, &vec![b'a'; 64 << 20]);
            let mut filter = start(coding, &[]);
            let mut most = 0;
            let mut made = 0;
            let mut out = Vec::new();
            let mut blow_up = || -> Result<(), Fault> {
                for piece in bomb.chunks(PIECE_BYTES) {
                    filter.take(piece, &mut out)?;
                    while filter.more(&mut out)? {
                        most = most.max(out.len());
                        made += out.len();
                        out.clear();
                    }
                }
                Ok(())
            };
            let fault = blow_up().unwrap_err();
            assert!(fault.to_string().contains("more than 200 times larger"), "{coding:?}: {fault}");
            assert!(most <= 2 * PIECE_BYTES, "{coding:?}");
            assert!(made <= (1 << 20) + 201 * (bomb.len() + PIECE_BYTES), "{coding:?}: {made}");
            let bounded =
                run(start(coding, &[("bytes_max", "100000"), ("ratio_max", "1000000")]), &bomb, 1 << 14, true);
            assert_eq!(bounded, Err(Fault::TooLarge(100_000)), "{coding:?}");
        }
    }

    #[test]
    fn what_is_cut_off_is_not_taken_for_whole() {
        let content: Vec<u8> = (0..50_000_u32).flat_map(|number| number.to_string().into_bytes()).collect();
        for coding in CODINGS {
            let coded = compressed(coding, &content);
            for bytes in [1, 10, coded.len() / 2, coded.len() - 1] {
                let fault = decompressed(coding, &coded[..bytes], true).unwrap_err();
                assert!(fault.to_string().contains("too early"), "{coding:?} {bytes}: {fault}");
            }
            assert_eq!(decompressed(coding, b"", true), Ok(Vec::new()), "an answer without content is whole");
        }
    }

    #[test]
    fn members_of_gzip_follow_each_other() {
        let coded = [compressed(Coding::Gzip, b"one "), compressed(Coding::Gzip, b"two")].concat();
        assert_eq!(decompressed(Coding::Gzip, &coded, true).unwrap(), b"one two");
        let coded = [compressed(Coding::Zstd, b"one "), compressed(Coding::Zstd, b"two")].concat();
        assert_eq!(decompressed(Coding::Zstd, &coded, true).unwrap(), b"one two");
    }

    #[test]
    fn windows_larger_than_browsers_have_are_refused() {
        let mut encoder = zstd::Encoder::new(Vec::new(), 1).unwrap();
        encoder.window_log(27).unwrap();
        encoder.write_all(&[b'a'; 100]).unwrap();
        encoder.flush().unwrap();
        let coded = encoder.finish().unwrap();
        assert!(decompressed(Coding::Zstd, &coded, true).is_err());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn what_was_compressed_comes_back(
            words in prop::collection::vec("[a-f]{1,9}", 0..4000), piece_bytes in 1_usize..5000, which in 0_usize..3,
        ) {
            let content = words.join(" ").into_bytes();
            let coded = compressed(CODINGS[which], &content);
            prop_assert_eq!(run(start(CODINGS[which], &[]), &coded, piece_bytes, true).unwrap(), content);
        }

        #[test]
        fn any_bytes_end_in_content_or_a_fault(bytes: Vec<u8>, flip in 0_usize..500, which in 0_usize..3) {
            let coding = CODINGS[which];
            let _ = decompressed(coding, &bytes, true);
            let mut coded = compressed(coding, &[b'a'; 1000]);
            let at = flip % coded.len();
            coded[at] ^= 1 << (flip % 8);
            let _ = decompressed(coding, &coded, true);
        }
    }
}
