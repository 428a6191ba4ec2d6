//! Formats of pictures: reading and writing them.
//!
//! Owns: [`Format`]. Guarantees: how many pixels there are is known, and judged, before room is made for them. A
//! picture is shown the way that its camera says, and has its colours: `profile` says how its profile is treated.
//! One that is damaged is shown as far as it goes: see `damage`. Other metadata is left out.

use std::io::Cursor;
use std::panic::AssertUnwindSafe;

use zune_core::colorspace::ColorSpace;
use zune_core::options::DecoderOptions;
use zune_jpeg::JpegDecoder;

use super::damage;
use super::pixels::Picture;
use super::profile::Profile;
use crate::{Fault, Held, Room};

/// A format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    Jpeg,
    Png,
    WebP,
}

impl Format {
    pub(super) const ALL: [Format; 3] = [Format::Jpeg, Format::Png, Format::WebP];

    /// That of the picture which begins with these bytes.
    pub(super) fn of(bytes: &[u8]) -> Option<Format> {
        match bytes {
            [0xff, 0xd8, 0xff, ..] => Some(Format::Jpeg),
            [0x89, b'P', b'N', b'G', b'\r', b'\n', 0x1a, b'\n', ..] => Some(Format::Png),
            [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => Some(Format::WebP),
            _ => None,
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Format::Jpeg => "jpeg",
            Format::Png => "png",
            Format::WebP => "webp",
        }
    }

    pub(super) fn media_type(self) -> &'static str {
        match self {
            Format::Jpeg => "image/jpeg",
            Format::Png => "image/png",
            Format::WebP => "image/webp",
        }
    }
}

/// Passes over the pixels of one JPEG: cameras and encoders write ten.
const SCANS_MAX: usize = 24;
/// The longest side.
const SIDE_MAX: usize = 16_384;

/// The bounds of a picture.
pub(super) struct Bounds<'r> {
    pixels_max: u64,
    room: Option<&'r Room>,
    /// The memory that it has been given.
    held: Option<Held>,
}

impl Bounds<'_> {
    /// At most so many pixels, and the memory for which there is room.
    pub(super) fn new(pixels_max: u64, room: Option<&Room>) -> Bounds<'_> {
        Bounds { pixels_max, room, held: None }
    }

    /// Whether there may be so many pixels, and there is room for them in a picture of this format: for what reads it,
    /// and then for what each step and what writes it take, which is a copy and a half of four bytes a pixel at most.
    fn judge(&mut self, format: Format, width: usize, height: usize) -> Result<(), Fault> {
        let pixels = (width as u64) * (height as u64);
        if width > SIDE_MAX || height > SIDE_MAX || pixels > self.pixels_max {
            return Err(Fault::Unreadable(format!("{width} by {height} pixels are too many")));
        }
        let of_pixel = match format {
            // Coefficients of three colours, of two bytes each, and twice what becomes of them.
            Format::Jpeg => 12,
            Format::Png => 12,
            // What its decoder may take, and what it gives.
            Format::WebP => 20,
        };
        if let Some(room) = self.room {
            // The second look at a picture takes the place of the first.
            self.held = None;
            self.held = Some(room.take(pixels * of_pixel + BESIDE_BYTES)?);
        }
        Ok(())
    }
}

/// Memory beside the pixels: metadata, tables, rows on their way.
const BESIDE_BYTES: u64 = 4 << 20;

/// A picture that has been read, and the profile of its colours, if it has another one than sRGB.
#[derive(Debug)]
pub(super) struct Decoded {
    pub(super) picture: Picture,
    pub(super) profile: Option<Vec<u8>>,
}

impl Decoded {
    /// The picture with its `profile`, by which greys are made those of sRGB.
    fn new(picture: Picture, profile: Option<Vec<u8>>, is_grey: bool) -> Decoded {
        match Profile::of(profile, is_grey) {
            Profile::None => Decoded { picture, profile: None },
            Profile::Kept(profile) => Decoded { picture, profile: Some(profile) },
            Profile::Grey(table) => Decoded { picture: picture.mapped(&table), profile: None },
        }
    }
}

/// The picture in `bytes`.
pub(super) fn read(format: Format, bytes: &[u8], bounds: &mut Bounds<'_>) -> Result<Decoded, Fault> {
    let decode = AssertUnwindSafe(|| match format {
        Format::Jpeg => read_jpeg(bytes, bounds),
        Format::Png => read_png(bytes, bounds),
        Format::WebP => read_webp(bytes, bounds),
    });
    // What strangers have made is read by what others have written: a defect there is a picture that cannot be read.
    let decoded = std::panic::catch_unwind(decode).map_err(|_| malformed(format, &"the decoder has failed"))??;
    let picture = &decoded.picture;
    let is_whole =
        picture.width * picture.height * picture.channels == picture.bytes.len() && !picture.bytes.is_empty();
    if is_whole { Ok(decoded) } else { Err(malformed(format, &"it has no pixels")) }
}

/// A fault in the words of a decoder, which may hold bytes of the picture.
fn malformed(format: Format, why: &dyn std::fmt::Display) -> Fault {
    let is_shown = |letter: &char| !letter.is_control() && *letter != char::REPLACEMENT_CHARACTER;
    let why: String = why.to_string().chars().filter(is_shown).take(WHY_CHARACTERS_MAX).collect();
    Fault::Unreadable(format!("it cannot be read as {}: {why}", format.name()))
}

/// Characters of the words of a decoder that are passed on.
const WHY_CHARACTERS_MAX: usize = 200;

/// Whether it is a sequential JPEG (T.81 4.11) whose colours have a scan each. The usual decoder gives the wrong ones
/// for some of these.
fn has_scan_for_each_colour(bytes: &[u8]) -> bool {
    let (mut rest, mut colours) = (bytes, 0);
    loop {
        let Some(at) = memchr::memchr(0xff, rest) else { return false };
        rest = &rest[at..];
        let Some(marker) = rest.iter().copied().find(|byte| *byte != 0xff) else { return false };
        let Some(end_of_marker) = memchr::memchr(marker, rest) else { return false };
        rest = &rest[end_of_marker + 1..];
        if matches!(marker, 0 | 1 | 0xd0..=0xd9) {
            continue;
        }
        match marker {
            0xc0 | 0xc1 => colours = rest.get(7).copied().unwrap_or(0),
            0xda => return rest.get(2).is_some_and(|of_scan| *of_scan < colours),
            _ => {}
        }
        let [high, low, ..] = *rest else { return false };
        rest = rest.get(usize::from(u16::from_be_bytes([high, low]))..).unwrap_or_default();
    }
}

/// The picture in a JPEG. One that the decoder takes offence at is mended, and then shown as far as it can be.
fn read_jpeg(bytes: &[u8], bounds: &mut Bounds<'_>) -> Result<Decoded, Fault> {
    if !damage::lacks_restart_markers(bytes) {
        match decode_jpeg(bytes, true, bounds) {
            Err(Fault::Unreadable(_)) => {}
            decoded => return decoded,
        }
    }
    let mended = damage::mended(bytes, bounds.pixels_max);
    decode_jpeg(mended.as_deref().unwrap_or(bytes), false, bounds)
}

fn decode_jpeg(bytes: &[u8], is_strict: bool, bounds: &mut Bounds<'_>) -> Result<Decoded, Fault> {
    let options = DecoderOptions::default()
        .set_strict_mode(is_strict)
        .jpeg_set_out_colorspace(ColorSpace::RGB)
        .jpeg_set_max_scans(SCANS_MAX)
        .set_max_width(SIDE_MAX)
        .set_max_height(SIDE_MAX);
    let mut decoder = JpegDecoder::new_with_options(Cursor::new(bytes), options);
    let fault = |why: &dyn std::fmt::Display| malformed(Format::Jpeg, why);
    decoder.decode_headers().map_err(|why| fault(&why))?;
    let info = decoder.info().ok_or_else(|| fault(&"it has no head"))?;
    let (width, height) = (usize::from(info.width), usize::from(info.height));
    bounds.judge(Format::Jpeg, width, height)?;
    let bytes = match has_scan_for_each_colour(bytes) {
        true => read_scan_by_scan(bytes, bounds.pixels_max)?,
        false => decoder.decode().map_err(|why| fault(&why))?,
    };
    let orientation = decoder.exif().map_or(1, |exif| orientation(exif));
    let (profile, is_grey) = (decoder.icc_profile(), info.components == 1);
    let picture = Picture { width, height, channels: 3, bytes };
    if picture.bytes.len() != width * height * 3 || picture.bytes.is_empty() {
        return Err(fault(&"it is of no kind that is known"));
    }
    Ok(Decoded::new(upright(picture, orientation), profile, is_grey))
}

/// A picture the way that its camera was held.
fn upright(picture: Picture, orientation: u16) -> Picture {
    match orientation {
        2 => picture.mirrored(),
        3 => picture.rotated(2),
        4 => picture.rotated(2).mirrored(),
        5 => picture.rotated(1).mirrored(),
        6 => picture.rotated(1),
        7 => picture.rotated(3).mirrored(),
        8 => picture.rotated(3),
        _ => picture,
    }
}

/// The pixels of a JPEG whose colours have a scan each, by a decoder that keeps all coefficients until the last scan:
/// slower, and with more memory.
fn read_scan_by_scan(bytes: &[u8], pixels_max: u64) -> Result<Vec<u8>, Fault> {
    let fault = |why: &dyn std::fmt::Display| malformed(Format::Jpeg, why);
    let mut decoder = jpeg_decoder::Decoder::new(bytes);
    decoder.set_max_decoding_buffer_size(usize::try_from(4 * pixels_max).unwrap_or(usize::MAX));
    let pixels = decoder.decode().map_err(|why| fault(&why))?;
    match decoder.info().map(|info| info.pixel_format) {
        Some(jpeg_decoder::PixelFormat::RGB24) => Ok(pixels),
        Some(jpeg_decoder::PixelFormat::L8) => Ok(pixels.iter().flat_map(|grey| [*grey; 3]).collect()),
        _ => Err(fault(&"it is of no kind that is known")),
    }
}

/// How a camera was held (Exif 2.3, 4.6.4, tag 274), from 1 to 8; 1 if that is not said.
fn orientation(exif: &[u8]) -> u16 {
    let exif = exif.strip_prefix(b"Exif\0\0").unwrap_or(exif);
    let is_little = exif.starts_with(b"II");
    let two = |at: usize| {
        let pair = exif.get(at..at.checked_add(2)?)?.try_into().ok()?;
        Some(if is_little { u16::from_le_bytes(pair) } else { u16::from_be_bytes(pair) })
    };
    let four = |at: usize| {
        let (first, second) = (usize::from(two(at)?), usize::from(two(at + 2)?));
        Some(if is_little { second << 16 | first } else { first << 16 | second })
    };
    let find = || {
        let directory = four(4)?;
        let entries = usize::from(two(directory)?);
        let mut each = (0..entries.min(512)).map(|entry| directory + 2 + 12 * entry);
        two(each.find(|at| two(*at) == Some(274))? + 8)
    };
    find().unwrap_or(1)
}

fn read_png(bytes: &[u8], bounds: &mut Bounds<'_>) -> Result<Decoded, Fault> {
    let fault = |why: &dyn std::fmt::Display| malformed(Format::Png, why);
    // What is decoded is bounded by its pixels; the rest is text and profiles.
    let limits = png::Limits { bytes: BESIDE_BYTES as usize };
    let mut decoder = png::Decoder::new_with_limits(Cursor::new(bytes), limits);
    decoder.set_transformations(png::Transformations::normalize_to_color8());
    let info = decoder.read_header_info().map_err(|why| fault(&why))?;
    let (width, height) = (info.width as usize, info.height as usize);
    bounds.judge(Format::Png, width, height)?;
    let mut reader = decoder.read_info().map_err(|why| fault(&why))?;
    let length = reader.output_buffer_size().filter(|length| *length as u64 <= 4 * bounds.pixels_max);
    let mut bytes = vec![0; length.ok_or_else(|| fault(&"it has too many bytes"))?];
    let (width, height, color_type) = match reader.next_frame(&mut bytes) {
        Ok(frame) => {
            bytes.truncate(frame.buffer_size());
            (frame.width as usize, frame.height as usize, frame.color_type)
        }
        // What has come of a picture that is cut off or damaged stands in its place.
        Err(_) if bytes.iter().any(|byte| *byte != 0) => (width, height, reader.output_color_type().0),
        Err(why) => return Err(fault(&why)),
    };
    let is_grey = matches!(color_type, png::ColorType::Grayscale | png::ColorType::GrayscaleAlpha);
    let (channels, bytes) = match color_type {
        png::ColorType::Rgb => (3, bytes),
        png::ColorType::Rgba => (4, bytes),
        png::ColorType::Grayscale => (3, bytes.iter().flat_map(|grey| [*grey; 3]).collect()),
        png::ColorType::GrayscaleAlpha => {
            (4, bytes.chunks_exact(2).flat_map(|pixel| [pixel[0], pixel[0], pixel[0], pixel[1]]).collect())
        }
        png::ColorType::Indexed => return Err(fault(&"its palette cannot be read")),
    };
    // It may stand behind the pixels. What else is wrong there takes nothing from the picture.
    let _ = reader.finish();
    let orientation = reader.info().exif_metadata.as_deref().map_or(1, orientation);
    let profile = reader.info().icc_profile.as_deref().map(<[u8]>::to_vec);
    // Of a picture that moves the first frame may be smaller.
    let picture = Picture { width, height, channels, bytes };
    Ok(Decoded::new(upright(picture, orientation), profile, is_grey))
}

fn read_webp(bytes: &[u8], bounds: &mut Bounds<'_>) -> Result<Decoded, Fault> {
    let fault = |why: &dyn std::fmt::Display| malformed(Format::WebP, why);
    let mut decoder = image_webp::WebPDecoder::new(Cursor::new(bytes)).map_err(|why| fault(&why))?;
    let (width, height) = decoder.dimensions();
    let (width, height) = (width as usize, height as usize);
    bounds.judge(Format::WebP, width, height)?;
    decoder.set_memory_limit(16 * (width * height) + (1 << 20));
    let length = decoder.output_buffer_size().ok_or_else(|| fault(&"it has too many bytes"))?;
    let mut bytes = vec![0; length];
    let channels = if decoder.has_alpha() { 4 } else { 3 };
    decoder.read_image(&mut bytes).map_err(|why| fault(&why))?;
    // One that cannot be read is none.
    let profile = decoder.icc_profile().ok().flatten();
    Ok(Decoded::new(Picture { width, height, channels, bytes }, profile, false))
}

/// Writes a picture behind `out`, with the profile of its colours.
pub(super) fn write(format: Format, decoded: Decoded, quality: u8, out: &mut Vec<u8>) -> Result<(), Fault> {
    let Decoded { picture, profile } = decoded;
    let fault =
        |why: &dyn std::fmt::Display| Fault::Content(format!("it cannot be written as {}: {why}", format.name()));
    let (width, height) = (picture.width as u32, picture.height as u32);
    match format {
        Format::Jpeg => {
            let picture = on_white(picture);
            let mut encoder = jpeg_encoder::Encoder::new(out, quality);
            encoder.set_sampling_factor(jpeg_encoder::SamplingFactor::F_2_2);
            // One of four pixels would stand for all otherwise, which is another picture and takes more bytes.
            encoder.set_chroma_subsampling_method(jpeg_encoder::ChromaSubsamplingMethod::Average);
            encoder.set_optimized_huffman_tables(true);
            if let Some(profile) = &profile {
                encoder.add_icc_profile(profile).map_err(|why| fault(&why))?;
            }
            encoder.encode_image(OnWhite(&picture)).map_err(|why| fault(&why))
        }
        Format::Png => {
            let mut info = png::Info::with_size(width, height);
            info.icc_profile = profile.map(Into::into);
            let mut encoder = png::Encoder::with_info(out, info).map_err(|why| fault(&why))?;
            encoder.set_color(if picture.channels == 4 { png::ColorType::Rgba } else { png::ColorType::Rgb });
            encoder.set_depth(png::BitDepth::Eight);
            let mut writer = encoder.write_header().map_err(|why| fault(&why))?;
            writer.write_image_data(&picture.bytes).map_err(|why| fault(&why))?;
            writer.finish().map_err(|why| fault(&why))
        }
        Format::WebP => {
            let color = if picture.channels == 4 { image_webp::ColorType::Rgba8 } else { image_webp::ColorType::Rgb8 };
            let mut encoder = image_webp::WebPEncoder::new(out);
            profile.into_iter().for_each(|profile| encoder.set_icc_profile(profile));
            encoder.encode(&picture.bytes, width, height, color).map_err(|why| fault(&why))
        }
    }
}

/// A picture of three channels, for the encoder of JPEG: its own table of formats would bring nine instances of the
/// encoder.
struct OnWhite<'a>(&'a Picture);

impl jpeg_encoder::ImageBuffer for OnWhite<'_> {
    fn get_jpeg_color_type(&self) -> jpeg_encoder::JpegColorType {
        jpeg_encoder::JpegColorType::Ycbcr
    }

    fn width(&self) -> u16 {
        self.0.width as u16
    }

    fn height(&self) -> u16 {
        self.0.height as u16
    }

    fn fill_buffers(&self, row: u16, buffers: &mut [Vec<u8>; 4]) {
        let row_bytes = self.0.width * 3;
        let row = &self.0.bytes[usize::from(row) * row_bytes..][..row_bytes];
        let [luma, blue, red, _] = buffers.each_mut().map(|buffer| {
            let filled = buffer.len();
            buffer.resize(filled + self.0.width, 0);
            &mut buffer[filled..]
        });
        for (pixel, ((luma, blue), red)) in row.chunks_exact(3).zip(luma.iter_mut().zip(blue).zip(red)) {
            (*luma, *blue, *red) = jpeg_encoder::rgb_to_ycbcr(pixel[0], pixel[1], pixel[2]);
        }
    }
}

/// Without what shines through, which JPEG does not have.
fn on_white(picture: Picture) -> Picture {
    if picture.channels == 3 {
        return picture;
    }
    let mix = |colour: u8, opaque: u8| {
        let (colour, opaque) = (u32::from(colour), u32::from(opaque));
        ((colour * opaque + 255 * (255 - opaque) + 127) / 255) as u8
    };
    let pixels = picture.bytes.chunks_exact(4);
    let bytes = pixels.flat_map(|pixel| [0, 1, 2].map(|colour| mix(pixel[colour], pixel[3]))).collect();
    Picture { channels: 3, bytes, ..picture }
}
