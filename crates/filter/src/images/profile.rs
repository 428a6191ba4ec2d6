//! Colour profiles of pictures (ICC.1:2022): how the one that a picture has is treated.
//!
//! Owns: [`Profile`]. Guarantees: a profile is only kept where its colours are those of the picture that is
//! written; any bytes are survived. A profile for red, green and blue goes with what is made of the picture, but
//! for sRGB, which is what pictures without one are taken for. Grey becomes that of sRGB. Of others (CMYK) nothing
//! is left: decoders have made red, green and blue of them by the rule without a profile.

/// A profile, as it goes on with its picture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Profile {
    /// There is none, or it says nothing.
    None,
    /// It is kept.
    Kept(Vec<u8>),
    /// Each grey is that of sRGB in the table.
    Grey(Box<[u8; 256]>),
}

/// The longest profile that is kept: those of screens and cameras have some hundred bytes or a few thousand.
const BYTES_MAX: usize = 64 * 1024;
const HEADER_BYTES: usize = 128;
/// Tags that are looked at; profiles have some twenty.
const TAGS_MAX: usize = 100;

impl Profile {
    /// The one of a picture that is grey or has colours.
    pub(super) fn of(bytes: Option<Vec<u8>>, is_grey: bool) -> Profile {
        let Some(bytes) = bytes.filter(|bytes| bytes.get(36..40) == Some(b"acsp")) else { return Profile::None };
        match (&bytes[16..20], is_grey) {
            (b"RGB ", false) if bytes.len() <= BYTES_MAX && !is_srgb(&bytes) => Profile::Kept(bytes),
            (b"GRAY", true) => greys(&bytes).map_or(Profile::None, Profile::Grey),
            _ => Profile::None,
        }
    }
}

/// The data of a tag (7.3).
fn tag<'b>(bytes: &'b [u8], signature: &[u8; 4]) -> Option<&'b [u8]> {
    let count = four(bytes, HEADER_BYTES)?.min(TAGS_MAX);
    let entry = (0..count).map(|number| HEADER_BYTES + 4 + 12 * number);
    let entry = entry.into_iter().find(|at| bytes.get(*at..at + 4) == Some(signature))?;
    let (from, length) = (four(bytes, entry + 4)?, four(bytes, entry + 8)?);
    bytes.get(from..from.checked_add(length)?)
}

fn four(bytes: &[u8], at: usize) -> Option<usize> {
    let four = bytes.get(at..at.checked_add(4)?)?.try_into().ok()?;
    usize::try_from(u32::from_be_bytes(four)).ok()
}

fn two(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(bytes.get(at..at.checked_add(2)?)?.try_into().ok()?))
}

/// Whether the profile says that it is sRGB: in ASCII as version 2 has it, or in UTF-16 as version 4.
fn is_srgb(bytes: &[u8]) -> bool {
    let says = |name: &[u8]| tag(bytes, b"desc").is_some_and(|text| text.windows(name.len()).any(|part| part == name));
    says(b"sRGB") || says(b"\0s\0R\0G\0B")
}

/// The greys of sRGB for those of the profile.
fn greys(bytes: &[u8]) -> Option<Box<[u8; 256]>> {
    let curve = Curve::of(tag(bytes, b"kTRC")?)?;
    // What a grey is connected to (10.6): its lightness, or its luminance.
    let is_lightness = bytes.get(20..24) == Some(b"Lab ");
    let mut table = Box::new([0; 256]);
    for (grey, entry) in table.iter_mut().enumerate() {
        let value = curve.at(grey as f64 / 255.0).clamp(0.0, 1.0);
        let lightness = 100.0 * value;
        let luminance = match is_lightness {
            true if lightness > 8.0 => ((lightness + 16.0) / 116.0).powi(3),
            true => lightness * 27.0 / 24_389.0,
            false => value,
        };
        let encoded = match luminance {
            dark if dark <= 0.003_130_8 => 12.92 * dark,
            light => 1.055 * light.powf(1.0 / 2.4) - 0.055,
        };
        *entry = (255.0 * encoded).round() as u8;
    }
    Some(table)
}

/// A curve (10.6, 10.18).
enum Curve {
    /// Samples over the whole range; none is the straight line.
    Sampled(Vec<u16>),
    /// `(ax + b)^g + e` from `d` on, `cx + f` below.
    Formula { g: f64, a: f64, b: f64, c: f64, d: f64, e: f64, f: f64 },
}

impl Curve {
    fn of(data: &[u8]) -> Option<Curve> {
        let power = |g| Curve::Formula { g, a: 1.0, b: 0.0, c: 0.0, d: 0.0, e: 0.0, f: 0.0 };
        match data.get(..4)? {
            b"curv" => match four(data, 8)? {
                1 => Some(power(f64::from(two(data, 12)?) / 256.0)),
                count if count <= 65_536 => {
                    (0..count).map(|number| two(data, 12 + 2 * number)).collect::<Option<_>>().map(Curve::Sampled)
                }
                _ => None,
            },
            b"para" => {
                let number = |at: usize| Some(f64::from(four(data, 12 + 4 * at)? as u32 as i32) / 65_536.0);
                let (g, zero) = (number(0)?, 0.0);
                let (a, b, c, d, e, f) = match two(data, 8)? {
                    0 => return Some(power(g)),
                    1 => {
                        let (a, b) = (number(1)?, number(2)?);
                        (a, b, zero, -b / a, zero, zero)
                    }
                    2 => {
                        let (a, b, e) = (number(1)?, number(2)?, number(3)?);
                        (a, b, zero, -b / a, e, e)
                    }
                    3 => (number(1)?, number(2)?, number(3)?, number(4)?, zero, zero),
                    4 => (number(1)?, number(2)?, number(3)?, number(4)?, number(5)?, number(6)?),
                    _ => return None,
                };
                Some(Curve::Formula { g, a, b, c, d, e, f })
            }
            _ => None,
        }
    }

    fn at(&self, x: f64) -> f64 {
        match self {
            Curve::Sampled(samples) if samples.is_empty() => x,
            Curve::Sampled(samples) => {
                let place = x * (samples.len() - 1) as f64;
                let (below, above) = (place.floor() as usize, place.ceil() as usize);
                let sample = |at: usize| f64::from(samples[at.min(samples.len() - 1)]) / 65_535.0;
                sample(below) + (sample(above) - sample(below)) * place.fract()
            }
            Curve::Formula { g, a, b, c, d, e, f } => match x >= *d {
                true => (a * x + b).max(0.0).powf(*g) + e,
                false => c * x + f,
            },
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A profile of a colour space with these tags.
    pub(in super::super) fn made(space: &[u8; 4], tags: &[(&[u8; 4], Vec<u8>)]) -> Vec<u8> {
        let mut bytes = vec![0; HEADER_BYTES];
        bytes[16..20].copy_from_slice(space);
        bytes[20..24].copy_from_slice(b"XYZ ");
        bytes[36..40].copy_from_slice(b"acsp");
        bytes.extend((tags.len() as u32).to_be_bytes());
        let mut at = bytes.len() + 12 * tags.len();
        for (signature, data) in tags {
            bytes.extend_from_slice(*signature);
            bytes.extend((at as u32).to_be_bytes());
            bytes.extend((data.len() as u32).to_be_bytes());
            at += data.len();
        }
        tags.iter().for_each(|(_, data)| bytes.extend_from_slice(data));
        let length = (bytes.len() as u32).to_be_bytes();
        bytes[..4].copy_from_slice(&length);
        bytes
    }

    fn gamma(value: u16) -> Vec<u8> {
        [&b"curv\0\0\0\0\0\0\0\x01"[..], &value.to_be_bytes()].concat()
    }

    #[test]
    fn colours_keep_their_profile_and_srgb_needs_none() {
        let p3 = made(b"RGB ", &[(b"desc", b"desc\0\0\0\0Display P3".to_vec())]);
        assert_eq!(Profile::of(Some(p3.clone()), false), Profile::Kept(p3.clone()));
        for (bytes, is_grey) in [
            (Some(p3), true),
            (None, false),
            (Some(b"no profile".to_vec()), false),
            (Some(made(b"CMYK", &[])), false),
            (Some(made(b"GRAY", &[(b"kTRC", gamma(256))])), false),
            (Some(made(b"RGB ", &[(b"desc", b"desc\0\0\0\0\0\0\0\x12sRGB IEC61966-2.1".to_vec())])), false),
            (Some(made(b"RGB ", &[(b"desc", b"mluc\0s\0R\0G\0B".to_vec())])), false),
            (Some(made(b"RGB ", &[(b"desc", vec![b'x'; BYTES_MAX])])), false),
        ] {
            assert_eq!(Profile::of(bytes, is_grey), Profile::None);
        }
    }

    #[test]
    fn grey_becomes_that_of_srgb() {
        let table = |tag: Vec<u8>| match Profile::of(Some(made(b"GRAY", &[(b"kTRC", tag)])), true) {
            Profile::Grey(table) => [0, 64, 128, 192, 255].map(|grey: usize| table[grey]),
            other => panic!("{other:?}"),
        };
        // A straight line is lighter, gamma 2.2 is nearly the same.
        assert_eq!(table(b"curv\0\0\0\0\0\0\0\0".to_vec()), [0, 137, 188, 225, 255]);
        assert_eq!(table(gamma(0x0233)), [0, 62, 129, 193, 255]);
        // sRGB itself, as a formula: the same.
        let numbers: [f64; 5] = [2.4, 1.0 / 1.055, 0.055 / 1.055, 1.0 / 12.92, 0.04045];
        let numbers = numbers.iter().flat_map(|number| ((number * 65_536.0).round() as i32).to_be_bytes());
        assert_eq!(table(b"para\0\0\0\0\0\x03\0\0".iter().copied().chain(numbers).collect()), [0, 64, 128, 192, 255]);
        let samples = [0_u16, 32_768, 65_535].iter().flat_map(|sample| sample.to_be_bytes());
        let straight = b"curv\0\0\0\0\0\0\0\x03".iter().copied().chain(samples).collect();
        assert_eq!(table(straight), [0, 137, 188, 225, 255]);
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(
            mut bytes in prop::collection::vec(any::<u8>(), 0..400),
            space in prop::sample::select(vec![*b"RGB ", *b"GRAY", *b"CMYK"]),
            tags in 0..4_u8,
            is_grey in any::<bool>(),
        ) {
            if bytes.len() >= 160 {
                bytes[16..20].copy_from_slice(&space);
                bytes[36..40].copy_from_slice(b"acsp");
                bytes[128..136].copy_from_slice(&[0, 0, 0, tags, b'k', b'T', b'R', b'C']);
                bytes[136..144].copy_from_slice(&[0, 0, 0, 148, 0, 0, 0, 12]);
            }
            Profile::of(Some(bytes), is_grey);
        }
    }
}
