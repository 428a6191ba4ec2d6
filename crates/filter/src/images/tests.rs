//! Pictures in every format, every step, and what is malformed.

use super::*;
use proptest::prelude::*;

use super::pixels::Picture;

fn images(given: &[(&str, &str)]) -> Arc<dyn Make> {
    make(&given.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()).unwrap()
}

fn recipe(query: &str, accept: &str) -> Option<String> {
    images(&[]).recipe(query.as_bytes(), &|_| vec![accept.as_bytes()])
}

/// A picture whose colours say where they are.
fn picture(width: usize, height: usize, channels: usize) -> Picture {
    let pixel = |at: usize| [(at % width * 255 / width) as u8, (at / width * 255 / height) as u8, 128, 255];
    let bytes = (0..width * height).flat_map(|at| pixel(at)[..channels].to_vec()).collect();
    Picture { width, height, channels, bytes }
}

fn written(format: Format, picture: Picture) -> Vec<u8> {
    let mut out = Vec::new();
    codecs::write(format, codecs::Decoded { picture, profile: None }, 95, &mut out).unwrap();
    out
}

/// The picture that a request for `query` gets, and its media type.
fn asked(make: &dyn Make, format: Format, bytes: &[u8], query: &str) -> (String, Result<Vec<u8>, Fault>) {
    let query = make.recipe(query.as_bytes(), &|_| vec![&b"image/webp"[..]]);
    let mut content = Content { query, ..Content::new(format.media_type()) };
    let mut filter = make.start(&mut content).expect("there is a recipe");
    let mut out = Vec::new();
    let made = filter.take(bytes, &mut out).and_then(|()| filter.finish(&mut out));
    (content.media_type, made.map(|()| out))
}

#[test]
fn a_recipe_has_one_spelling_and_rounded_values() {
    for (query, expected) in [
        ("scale=400", "scale=512"),
        ("v=1&scale=512&x=y", "scale=512"),
        ("scale=400x300", "scale=512x384"),
        ("scale=x300", "scale=x384"),
        ("scale=9999", "scale=3840"),
        ("crop=32:18&scale=10", "crop=16:9&scale=16"),
        ("scale=10&crop=16%3A9", "scale=16&crop=16:9"),
        ("crop=11,12,77,99", "crop=10,10,80,90"),
        ("rotate=90&gamma=1.44&smooth=2&dither=5", "rotate=90&gamma=1.4&smooth=2&dither=8"),
        ("format=jpg", "format=jpeg"),
    ] {
        assert_eq!(recipe(query, "").as_deref(), Some(expected), "{query}");
        assert_eq!(recipe(expected, "").as_deref(), Some(expected));
    }
    assert_eq!(recipe("v=1", ""), None);
    // What Firefox and Chromium send for pictures.
    for accept in ["image/avif,image/webp,*/*;q=0.8", "image/avif,image/webp,image/apng,image/*,*/*;q=0.8"] {
        assert_eq!(recipe("format=auto", accept).as_deref(), Some("format=auto:webp"), "{accept}");
    }
    for accept in ["", "*/*", "image/png", "image/webp;q=0"] {
        assert_eq!(recipe("format=auto", accept).as_deref(), Some("format=auto"), "{accept}");
    }
}

fn adapted(query: &str, fields: &[(&str, &str)]) -> Option<String> {
    let of_field = |name: &'static str| {
        let own = fields.iter().filter(move |(other, _)| other.eq_ignore_ascii_case(name));
        own.map(|(_, value)| value.as_bytes()).collect()
    };
    images(&[("adapt", "true")]).recipe(query.as_bytes(), &of_field)
}

#[test]
fn what_a_client_shows_bounds_a_picture_unless_the_query_says_how_large_it_is_to_be() {
    let phone = [("Sec-CH-Viewport-Width", "360"), ("Sec-CH-DPR", "2"), ("Accept", "image/webp,*/*")];
    for (query, fields, expected) in [
        ("", &[][..], None),
        ("v=1", &[("Accept", "image/webp")][..], None),
        ("", &phone[..], Some("scale=828&format=auto:webp&adapted")),
        ("", &phone[..2], Some("scale=828&format=auto&adapted")),
        ("", &[("Save-Data", "on")][..], Some("scale=828&format=auto&adapted")),
        ("crop=1:1", &phone[..], Some("crop=1:1&scale=828&format=auto:webp")),
        ("format=jpeg", &phone[..], Some("scale=828&format=jpeg")),
        ("scale=100", &phone[..], Some("scale=128")),
        ("adapt=off", &phone[..], None),
        ("adapt=off&rotate=90", &phone[..], Some("rotate=90")),
        ("adapted&rotate=90", &phone[2..], Some("rotate=90")),
        ("", &[("Sec-CH-Width", "99999")][..], None),
    ] {
        let recipe = adapted(query, fields);
        assert_eq!(recipe.as_deref(), expected, "{query} {fields:?}");
        let is_preference = recipe.is_some_and(|recipe| images(&[]).is_preference(&recipe));
        assert_eq!(
            is_preference,
            expected.is_some_and(|expected| expected.ends_with("&adapted")),
            "{query} {fields:?}"
        );
    }
    let six = ["smooth=1"; 6].join("&");
    let recipe = adapted(&six, &phone).expect("it is adapted");
    assert_eq!(Recipe::parse(&recipe, &SIZES, None).map(|recipe| recipe.steps.len()), Ok(7));
    assert!(make(&[("adapt".to_owned(), "yes".to_owned())].into()).is_err());
}

#[test]
fn a_picture_that_would_not_get_smaller_is_given_as_it_is() {
    let make = images(&[("adapt", "true"), ("quality", "100")]);
    for (width, is_as_it_was) in [(64, true), (900, false)] {
        let bytes = written(Format::Jpeg, picture(width, 32, 3));
        let query = make.recipe(b"", &|name| if name == "sec-ch-width" { vec![b"100"] } else { vec![] });
        let mut content = Content { query, ..Content::new("image/jpeg") };
        let mut filter = make.start(&mut content).expect("there is a recipe");
        let mut out = Vec::new();
        filter.take(&bytes, &mut out).and_then(|()| filter.finish(&mut out)).unwrap();
        assert_eq!((out == bytes, &*content.media_type), (is_as_it_was, "image/jpeg"), "{width}");
    }
}

#[test]
fn what_cannot_be_asked_for_is_said() {
    for (query, said) in [
        ("scale=", "`scale` is a width, a height or both in pixels, as in 400, x300 or 400x300"),
        ("scale=0", "`scale` is a width"),
        ("scale=400x", "scale=512"),
        ("crop=0:1", "`crop` is a shape"),
        ("crop=0,0,0,10", "`crop` is a shape"),
        ("rotate=45", "`rotate` is 90, 180 or 270"),
        ("gamma=NaN", "`gamma` is a number from 0.1 to 5"),
        ("dither=1", "`dither` is a number of values from 2 to 256"),
        ("smooth=99", "`smooth` is a number of pixels from 1 to 10"),
        ("format=gif", "`format` is auto, jpeg, png or webp"),
        ("format=auto:webp", "`format` is auto, jpeg, png or webp"),
        ("smooth=1&smooth=1&smooth=1&smooth=1&smooth=1&smooth=1&smooth=1", "there are more than 6 steps"),
    ] {
        let found = recipe(query, "").unwrap();
        assert!(found.contains(said), "{query}: {found}");
    }
    let bytes = written(Format::Png, picture(4, 4, 3));
    let (_, made) = asked(&*images(&[]), Format::Png, &bytes, "rotate=45");
    assert_eq!(made, Err(Fault::Request("`rotate` is 90, 180 or 270".into())));
}

#[test]
fn every_format_becomes_every_other() {
    let names = ["jpeg", "png", "webp"];
    for (source, name) in Format::ALL.into_iter().flat_map(|source| names.map(|name| (source, name))) {
        for channels in [3, 4] {
            let bytes = written(source, picture(60, 40, channels));
            let (media_type, made) = asked(&*images(&[]), source, &bytes, &format!("scale=30&format={name}"));
            let into = Format::ALL.into_iter().find(|format| format.name() == name).unwrap();
            assert_eq!(media_type, into.media_type());
            let made = read(into, &made.unwrap(), 10_000).unwrap();
            assert_eq!((made.width, made.height), (32, 21), "{source:?} {name}");
            let at = |x: usize, y: usize| &made.bytes[(y * made.width + x) * made.channels..][..3];
            assert!(at(30, 10)[0] > 190 && at(1, 10)[0] < 60, "{source:?} {name}: left is dark");
            assert!(at(16, 19)[1] > 170 && at(16, 1)[1] < 80, "{source:?} {name}");
        }
    }
}

#[test]
fn a_picture_is_never_made_larger() {
    let bytes = written(Format::Png, picture(20, 10, 3));
    let (_, made) = asked(&*images(&[]), Format::Png, &bytes, "scale=3840");
    let made = read(Format::Png, &made.unwrap(), 1_000).unwrap();
    assert_eq!(made, picture(20, 10, 3));
}

#[test]
fn steps_do_what_they_are_called() {
    let whole = picture(20, 10, 3);
    let turned = whole.clone().rotated(1);
    assert_eq!((turned.width, turned.height), (10, 20));
    assert_eq!(turned.rotated(1).rotated(2), whole);
    assert_eq!(whole.clone().mirrored().mirrored(), whole);
    let square = whole.clone().shaped(1, 1);
    assert_eq!((square.width, square.height, square.bytes[0]), (10, 10, whole.bytes[3 * 5]));
    let part = whole.clone().section(Section { left: 50, top: 10, width: 50, height: 20 });
    assert_eq!((part.width, part.height, part.bytes[0]), (10, 2, whole.bytes[3 * 10]));
    assert!(whole.clone().dithered(2).bytes.iter().all(|byte| matches!(byte, 0 | 255)));
    let mean = |picture: &Picture| picture.bytes.iter().map(|byte| u64::from(*byte)).sum::<u64>() / 600;
    assert!(mean(&whole).abs_diff(mean(&whole.clone().dithered(4))) < 8);
    assert!(mean(&whole.clone().with_gamma(20)) > mean(&whole) && mean(&whole.clone().with_gamma(5)) < mean(&whole));
    assert_eq!(whole.clone().with_gamma(10), whole);
    let flat = Picture { bytes: vec![77; 600], ..whole.clone() };
    assert_eq!(flat.clone().smoothed(3), flat);
    assert_eq!(Picture { bytes: vec![77; 600], ..whole }.scaled(Some(7), None).bytes, vec![77; 7 * 4 * 3]);
}

#[test]
fn a_camera_that_was_held_upright_is_believed() {
    let tiff = [&b"MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\x06\0\0\0\0\0\0"[..]].concat();
    let mut out = Vec::new();
    let mut encoder = jpeg_encoder::Encoder::new(&mut out, 95);
    encoder.add_exif_metadata(&tiff).unwrap();
    encoder.encode(&picture(60, 40, 3).bytes, 60, 40, jpeg_encoder::ColorType::Rgb).unwrap();
    let read = read(Format::Jpeg, &out, 10_000).unwrap();
    assert_eq!((read.width, read.height), (40, 60));
}

/// A PNG with the chunk `eXIf` before or behind its pixels.
fn with_exif(png: &[u8], tiff: &[u8], is_behind: bool) -> Vec<u8> {
    let mut chunk = (tiff.len() as u32).to_be_bytes().to_vec();
    chunk.extend_from_slice(&[b"eXIf", tiff].concat());
    let sum = chunk[4..].iter().fold(!0_u32, |sum, byte| {
        (0..8).fold(sum ^ u32::from(*byte), |sum, _| sum >> 1 ^ if sum & 1 == 1 { 0xedb8_8320 } else { 0 })
    });
    chunk.extend_from_slice(&(!sum).to_be_bytes());
    // The signature and IHDR have 33 bytes, and IEND has 12.
    let (before, behind) = png.split_at(if is_behind { png.len() - 12 } else { 33 });
    [before, &chunk, behind].concat()
}

#[test]
fn a_png_is_shown_the_way_that_its_camera_was_held() {
    let png = written(Format::Png, picture(60, 40, 3));
    for (orientation, expected) in [(1, (60, 40)), (6, (40, 60)), (3, (60, 40)), (8, (40, 60))] {
        let entry = [&b"MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0"[..], &[orientation], &b"\0\0\0\0\0\0"[..]];
        for is_behind in [false, true] {
            let read = read(Format::Png, &with_exif(&png, &entry.concat(), is_behind), 10_000).unwrap();
            assert_eq!((read.width, read.height), expected, "{orientation}, {is_behind}");
            let turns = match orientation {
                6 => 1,
                3 => 2,
                8 => 3,
                _ => 0,
            };
            assert!(read == picture(60, 40, 3).rotated(turns));
        }
    }
}

#[test]
fn a_picture_is_what_it_begins_with_whatever_its_name_is() {
    for format in Format::ALL {
        assert_eq!(Format::of(&written(format, picture(20, 10, 3))), Some(format));
        for named in Format::ALL {
            let (_, made) = asked(&*images(&[]), named, &written(format, picture(60, 40, 3)), "scale=32");
            let made = made.unwrap_or_else(|why| panic!("{named:?} that is {format:?}: {why}"));
            assert_eq!(Format::of(&made), Some(named), "it becomes what its name says");
        }
    }
    assert_eq!([&b""[..], b"GIF89a", b"\xff\xd8", b"RIFF1234WAVE"].map(Format::of), [None; 4]);
}

#[test]
fn a_decoder_is_not_quoted_with_bytes_that_cannot_be_shown() {
    let garbage: Vec<u8> = (0..=255).cycle().take(4_000).collect();
    for format in Format::ALL {
        for at in [4, 12, 20, 40] {
            let mut bytes = written(format, picture(60, 40, 3));
            bytes.truncate(at);
            bytes.extend_from_slice(&garbage);
            let Err(why) = read(format, &bytes, 10_000) else { continue };
            let text = why.to_string();
            assert!(!text.chars().any(|letter| letter.is_control() || letter == '\u{fffd}'), "{text:?}");
        }
    }
}

#[test]
fn a_jpeg_whose_colours_have_a_scan_each_is_read_as_any_other() {
    let written = |is_optimized: bool| {
        let mut out = Vec::new();
        let mut encoder = jpeg_encoder::Encoder::new(&mut out, 95);
        encoder.set_sampling_factor(jpeg_encoder::SamplingFactor::F_2_2);
        // This writes a scan for each colour.
        encoder.set_optimized_huffman_tables(is_optimized);
        encoder.encode(&picture(60, 40, 3).bytes, 60, 40, jpeg_encoder::ColorType::Rgb).unwrap();
        out
    };
    let worst = |one: &Picture, other: &Picture| {
        assert_eq!((one.width, one.height, one.channels), (other.width, other.height, other.channels));
        one.bytes.iter().zip(&other.bytes).map(|(one, other)| one.abs_diff(*other)).max()
    };
    let [usual, apart] = [false, true].map(|apart| read(Format::Jpeg, &written(apart), 10_000).unwrap());
    // Two decoders, which round and spread colours differently.
    assert!(worst(&usual, &apart) < Some(24), "{:?}", worst(&usual, &apart));
    assert!(worst(&picture(60, 40, 3), &apart) < Some(40));
    assert!(read(Format::Jpeg, &written(true), 2_399).is_err(), "as many pixels as others");
    let mut progressive = Vec::new();
    let mut encoder = jpeg_encoder::Encoder::new(&mut progressive, 95);
    encoder.set_progressive(true);
    encoder.set_sampling_factor(jpeg_encoder::SamplingFactor::F_2_2);
    encoder.encode(&picture(60, 40, 3).bytes, 60, 40, jpeg_encoder::ColorType::Rgb).unwrap();
    let (plain, read) = (picture(60, 40, 3), read(Format::Jpeg, &progressive, 10_000).unwrap());
    let worst = plain.bytes.iter().zip(&read.bytes).map(|(one, other)| one.abs_diff(*other)).max();
    assert!(worst < Some(40), "{worst:?}");
}

#[test]
fn a_picture_of_too_many_pixels_is_refused_before_it_is_decoded() {
    for format in Format::ALL {
        let bytes = written(format, picture(200, 200, 3));
        let (_, made) = asked(&*images(&[("pixels_max", "39999")]), format, &bytes, "scale=10");
        assert_eq!(made, Err(Fault::Unreadable("200 by 200 pixels are too many".into())));
        assert!(asked(&*images(&[("pixels_max", "40000")]), format, &bytes, "scale=10").1.is_ok());
    }
    // 2^31 pixels on each side, in 33 bytes.
    let bomb = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\x7f\xff\xff\xff\x7f\xff\xff\xff\x08\x06\0\0\0\0\0\0\0";
    assert!(matches!(asked(&*images(&[]), Format::Png, bomb, "scale=10").1, Err(Fault::Unreadable(_))));
}

/// A picture of so many pixels at most.
fn read(format: Format, bytes: &[u8], pixels_max: u64) -> Result<Picture, Fault> {
    codecs::read(format, bytes, &mut codecs::Bounds::new(pixels_max, None)).map(|decoded| decoded.picture)
}

#[test]
fn memory_for_a_picture_is_asked_for_before_it_is_taken_and_kept_to_the_end() {
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

    use crate::NoRoom;

    /// Says when it is given back.
    struct Given(Arc<AtomicBool>);
    impl Drop for Given {
        fn drop(&mut self) {
            self.0.store(true, SeqCst);
        }
    }
    for format in Format::ALL {
        let bytes = written(format, picture(200, 100, 3));
        let ask = |no_room: Option<NoRoom>| {
            let (asked, is_back) = (Arc::new(Mutex::new(Vec::new())), Arc::new(AtomicBool::new(false)));
            let (said, given) = (asked.clone(), is_back.clone());
            let room = Room::new(move |bytes| {
                said.lock().unwrap().push(bytes);
                no_room.map_or_else(|| Ok(Box::new(Given(given.clone())) as crate::Held), Err)
            });
            // It may go on as long as its memory is its own.
            let is_held = is_back.clone();
            let leave = Some(Leave::new(move || !is_held.load(SeqCst)));
            let query = Some("scale=16&rotate=90".to_owned());
            let mut content = Content { query, leave, room: Some(room), ..Content::new(format.media_type()) };
            let mut filter = images(&[]).start(&mut content).unwrap();
            let mut out = Vec::new();
            let made = filter.take(&bytes, &mut out).and_then(|()| filter.finish(&mut out));
            let asked = asked.lock().unwrap().clone();
            (made, asked, is_back.load(SeqCst))
        };
        let (made, asked, is_back) = ask(None);
        assert_eq!((made, asked.len(), is_back), (Ok(()), 1, true), "{format:?}");
        assert!(asked[0] >= 200 * 100 * 8, "{asked:?}: its pixels, and what a step makes of them");
        assert_eq!(ask(Some(NoRoom::Now)).0, Err(Fault::NoRoom));
        assert!(matches!(ask(Some(NoRoom::Ever)).0, Err(Fault::Unreadable(why)) if why.contains("memory")));
    }
}

#[test]
fn a_picture_whose_time_is_over_is_given_up() {
    let bytes = written(Format::Png, picture(40, 40, 3));
    let query = Some("scale=16&rotate=90&smooth=1".to_owned());
    for (steps_left, is_made) in [(0, false), (2, false), (3, false), (4, true)] {
        let left = std::sync::atomic::AtomicI32::new(steps_left);
        let leave = Some(Leave::new(move || left.fetch_sub(1, std::sync::atomic::Ordering::Relaxed) > 0));
        let mut content = Content { query: query.clone(), leave, ..Content::new("image/png") };
        let mut filter = images(&[]).start(&mut content).unwrap();
        let mut out = Vec::new();
        let made = filter.take(&bytes, &mut out).and_then(|()| filter.finish(&mut out));
        assert_eq!(made, if is_made { Ok(()) } else { Err(Fault::TooSlow) }, "{steps_left}");
    }
}

#[test]
fn without_a_recipe_a_picture_is_left_alone() {
    let make = images(&[]);
    assert!(make.start(&mut Content::new("image/png")).is_none());
    let query = Some("scale=16".to_owned());
    assert!(make.start(&mut Content { query: query.clone(), ..Content::new("image/gif") }).is_none());
    assert!(make.start(&mut Content { query, ..Content::new("image/png") }).is_some());
}

#[test]
fn wrong_parameters_are_refused_with_what_is_right() {
    let wrong = |name: &str, value: &str| make(&[(name.to_owned(), value.to_owned())].into()).unwrap_err();
    assert_eq!(wrong("quality", "0"), "`quality` is a number from 1 to 100");
    assert_eq!(wrong("sizes", "10,many"), "`sizes` are numbers from 1 to 16384 with commas between");
    assert_eq!(wrong("sizes", ""), "`sizes` are numbers from 1 to 16384 with commas between");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn any_damage_is_a_picture_or_a_fault(which in 0_usize..3, damage: Vec<(usize, u8)>, cut in 0_usize..4_000) {
        let format = Format::ALL[which];
        let mut bytes = written(format, picture(24, 18, 3 + which % 2));
        bytes.truncate(cut.max(20));
        for (at, byte) in damage {
            let at = at % bytes.len();
            bytes[at] = byte;
        }
        let (_, made) = asked(&*images(&[("pixels_max", "100000")]), format, &bytes, "scale=16&crop=3:2&rotate=90&smooth=1");
        if let Ok(made) = made {
            prop_assert!(read(format, &made, 100_000).is_ok());
        }
    }

    #[test]
    fn any_steps_leave_a_picture_that_is_no_larger(
        width in 1_usize..70, height in 1_usize..70, channels in 3_usize..5,
        steps in prop::collection::vec("scale=[1-9]{1,2}|scale=x[1-9]{1,2}|crop=[1-9]:[1-9]|crop=[0-9]{1,2},[0-9]{1,2},[1-9],[1-9]|rotate=90|dither=4|gamma=2|smooth=[1-9]", 1..6),
    ) {
        let bytes = written(Format::Png, picture(width, height, channels));
        let (_, made) = asked(&*images(&[("sizes", "1,3,9,27")]), Format::Png, &bytes, &steps.join("&"));
        let made = read(Format::Png, &made.unwrap(), 10_000).unwrap();
        prop_assert!(made.width.max(made.height) <= width.max(height));
    }
}

/// The picture with a profile.
fn written_with(format: Format, picture: Picture, profile: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let decoded = codecs::Decoded { picture, profile: Some(profile.to_vec()) };
    codecs::write(format, decoded, 95, &mut out).unwrap();
    out
}

fn profile_of(format: Format, bytes: &[u8]) -> Option<Vec<u8>> {
    codecs::read(format, bytes, &mut codecs::Bounds::new(1_000_000, None)).unwrap().profile
}

#[test]
fn colours_stay_those_of_their_profile_whatever_is_made_of_the_picture() {
    // Longer than one segment of JPEG holds would be left out.
    let wide = profile::tests::made(b"RGB ", &[(b"desc", vec![b'P'; 3000])]);
    let make = images(&[]);
    for from in Format::ALL {
        let bytes = written_with(from, picture(60, 40, 3), &wide);
        assert_eq!(profile_of(from, &bytes).as_ref(), Some(&wide), "{from:?}");
        for (query, into) in [
            ("scale=16", from),
            ("scale=16&format=jpeg", Format::Jpeg),
            ("crop=1:1&format=png", Format::Png),
            ("rotate=90&format=webp", Format::WebP),
        ] {
            let (media_type, made) = asked(&*make, from, &bytes, query);
            assert_eq!(media_type, into.media_type());
            assert_eq!(profile_of(into, &made.unwrap()).as_ref(), Some(&wide), "{from:?} {query}");
        }
    }
    // One of other colours says nothing of red, green and blue.
    let cmyk = profile::tests::made(b"CMYK", &[]);
    assert_eq!(profile_of(Format::Jpeg, &written_with(Format::Jpeg, picture(8, 8, 3), &cmyk)), None);
}

#[test]
fn a_grey_picture_with_a_profile_has_the_greys_of_srgb() {
    let straight = profile::tests::made(b"GRAY", &[(b"kTRC", b"curv\0\0\0\0\0\0\0\0".to_vec())]);
    for (profile, expected) in [(Some(straight), 188), (None, 128)] {
        let mut out = Vec::new();
        let mut info = png::Info::with_size(4, 4);
        info.color_type = png::ColorType::Grayscale;
        info.icc_profile = profile.map(Into::into);
        let mut writer = png::Encoder::with_info(&mut out, info).unwrap().write_header().unwrap();
        writer.write_image_data(&[128; 16]).unwrap();
        writer.finish().unwrap();
        let decoded = codecs::read(Format::Png, &out, &mut codecs::Bounds::new(1_000_000, None)).unwrap();
        assert_eq!((decoded.picture.bytes[0], decoded.profile), (expected, None));
    }
}

/// A JPEG with a restart marker behind each row of MCUs, if there are to be some.
fn jpeg(width: usize, height: usize, has_restarts: bool) -> Vec<u8> {
    let picture = picture(width, height, 3);
    let mut out = Vec::new();
    let mut encoder = jpeg_encoder::Encoder::new(&mut out, 90);
    encoder.set_sampling_factor(jpeg_encoder::SamplingFactor::F_2_2);
    if has_restarts {
        encoder.set_restart_interval(width.div_ceil(16) as u16);
    }
    encoder.encode(&picture.bytes, width as u16, height as u16, jpeg_encoder::ColorType::Rgb).unwrap();
    out
}

/// The rows of a picture.
fn rows(bytes: &[u8]) -> Vec<Vec<u8>> {
    let picture = read(Format::Jpeg, bytes, 1_000_000).unwrap();
    picture.bytes.chunks(picture.width * 3).map(<[u8]>::to_vec).collect()
}

#[test]
fn a_jpeg_that_is_cut_off_is_shown_as_far_as_it_goes_and_grey_behind() {
    for has_restarts in [false, true] {
        let whole = jpeg(320, 160, has_restarts);
        let (cut, whole) = (rows(&whole[..whole.len() * 6 / 10]), rows(&whole));
        assert_eq!(cut[..64], whole[..64]);
        assert!(cut[144..].iter().flatten().all(|byte| *byte == 128), "{:?}", cut[159]);
        assert!(cut[64..144].iter().zip(&whole[64..144]).any(|(cut, whole)| cut != whole));
    }
}

#[test]
fn a_bad_place_in_a_jpeg_takes_nothing_but_what_is_there() {
    let whole = jpeg(320, 160, true);
    let marker = |number: u8| memchr::memmem::find(&whole, &[0xff, 0xd0 + number]).unwrap();
    let shown = rows(&whole);
    // Data between two restart markers, and one of these.
    for (from, to, lost) in [(marker(3) + 6, marker(4) - 4, 64..80), (marker(3) - 4, marker(3) + 4, 48..80)] {
        let mut bad = whole.clone();
        bad[from..to].iter_mut().enumerate().for_each(|(at, byte)| *byte = (at * 37 % 255) as u8);
        let mended = rows(&damage::mended(&bad, 1_000_000).unwrap());
        // Rows beside it are smoothed with it.
        assert_eq!(mended[..lost.start - 1], shown[..lost.start - 1]);
        assert_eq!(mended[lost.end + 1..], shown[lost.end + 1..]);
        assert_ne!(mended[lost.clone()], shown[lost]);
    }
    assert_eq!(rows(&damage::mended(&whole, 1_000_000).unwrap()), shown, "what is not damaged stays");
    let whole = jpeg(320, 160, false);
    let mut bad = whole.clone();
    let at = whole.len() / 2;
    bad[at..at + 3].copy_from_slice(&[0xfe; 3]);
    // Something follows that is not what the decoder puts where it stops.
    assert!(rows(&bad)[150..].iter().flatten().any(|byte| *byte != 128));
}

#[test]
fn a_restart_marker_where_none_can_be_is_damage() {
    let (with, without) = (jpeg(64, 64, true), jpeg(64, 64, false));
    assert!(!damage::lacks_restart_markers(&with) && !damage::lacks_restart_markers(&without));
    let at = memchr::memmem::find(&with, &[0xff, 0xd1]).unwrap();
    for (bytes, at, marker) in
        [(&with, at, [0xff, 0xd5]), (&with, at, [1, 1]), (&without, without.len() - 8, [0xff, 0xd3])]
    {
        let mut bad = bytes.clone();
        bad[at..at + 2].copy_from_slice(&marker);
        assert!(damage::lacks_restart_markers(&bad), "{marker:?}");
    }
}

#[test]
fn a_png_that_is_cut_off_is_shown_as_far_as_it_goes() {
    // What cannot be compressed has as many bytes in each row.
    let mut state = 1_u32;
    let noise = |_| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    };
    let picture = Picture { width: 100, height: 100, channels: 3, bytes: (0..30_000).map(noise).collect() };
    let whole = written(Format::Png, picture);
    let shown = read(Format::Png, &whole, 1_000_000).unwrap();
    assert_eq!(read(Format::Png, &whole[..whole.len() - 12], 1_000_000).unwrap(), shown, "its end alone is missing");
    let cut = read(Format::Png, &whole[..whole.len() / 2], 1_000_000).unwrap();
    assert_eq!((cut.width, cut.height), (100, 100));
    assert_eq!(cut.bytes[..3_000], shown.bytes[..3_000]);
    assert!(cut.bytes[27_000..].iter().all(|byte| *byte == 0));
    assert!(read(Format::Png, &whole[..60], 1_000_000).is_err(), "nothing has come");
}

proptest! {
    #[test]
    fn what_is_mended_can_be_decoded(
        has_restarts in any::<bool>(),
        places in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..12),
        cut in prop::option::of(any::<prop::sample::Index>()),
    ) {
        let mut bytes = jpeg(48, 40, has_restarts);
        let data = memchr::memmem::find(&bytes, &[0xff, 0xda]).unwrap() + 14;
        let length = bytes.len() - data;
        places.iter().for_each(|(place, byte)| bytes[data + place.index(length)] = *byte);
        bytes.truncate(cut.map_or(bytes.len(), |cut| data + cut.index(length)));
        let mended = damage::mended(&bytes, 1_000_000).expect("its tables have all that is written");
        let picture = read(Format::Jpeg, &mended, 1_000_000).unwrap();
        prop_assert_eq!((picture.width, picture.height), (48, 40));
        prop_assert!(!damage::lacks_restart_markers(&mended));
    }
}
