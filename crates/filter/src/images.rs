//! The filter `images`: other sizes, sections and formats of pictures, as the query of a request asks for them (JAWS
//! framework paper, 3.5).
//!
//! ```text
//! ?scale=420&format=auto ── recipe ──> scale=512&format=webp ── start ──> decode, each step in the order written, encode
//! ```
//!
//! With `adapt` a client that says how wide its window or the picture in it is (client hints) is given no more pixels
//! than it shows.
//!
//! Owns: [`Recipe`], what is asked for with its values rounded, so that few different ones exist of each picture.
//! `codecs` reads and writes the formats, `pixels` carries steps out. Guarantees: a picture of too many pixels, or for
//! which there is no memory, is refused before it is decoded; nothing gets larger than it was; malformed pictures and
//! recipes are faults; a picture that has no time left is given up between two steps. Needs the whole content. For
//! files only.

mod codecs;
mod damage;
mod pixels;
mod profile;

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use lamna_proto::exchange::negotiate::accepts_media;

use crate::client_hints::{self, ClientHints};
use crate::{Content, Effect, Fault, Filter, Kind, Leave, Lines, Make, Parameters, Room};
use codecs::Format;
use pixels::Section;

/// The row of the table.
pub(crate) const KIND: Kind = Kind {
    name: "images",
    about: "Gives other sizes, sections and formats of pictures, as the query asks (JPEG, PNG, WebP).",
    version: 6,
    effect: Effect::None,
    required: &[],
    optional: &[
        ("adapt", "\"true\": no more pixels than a client shows that says how many (client hints, Save-Data)"),
        ("pixels_max", "Pixels of a picture that is read; more are refused. Default: 40000000"),
        ("quality", "Of JPEG, from 1 to 100. Default: 80"),
        ("sizes", "The widths and heights that there are, with commas between; others are rounded up to the next one"),
    ],
    make,
};

#[derive(Debug)]
struct Images {
    pixels_max: u64,
    quality: u8,
    sizes: Arc<[u32]>,
    adapt: bool,
}

const PIXELS_MAX: u64 = 40_000_000;
const QUALITY: u8 = 80;
/// Thumbnails, and what screens have.
const SIZES: [u32; 18] = [16, 32, 48, 64, 96, 128, 192, 256, 384, 512, 640, 828, 1080, 1280, 1600, 1920, 2560, 3840];
/// Steps of one recipe: more are no picture that anybody wants.
const STEPS_MAX: usize = 6;

fn make(parameters: &Parameters) -> Result<Arc<dyn Make>, String> {
    let number = |name: &str, usual: u64, bounds: std::ops::RangeInclusive<u64>| match parameters.get(name) {
        None => Ok(usual),
        Some(text) => text
            .parse()
            .ok()
            .filter(|number| bounds.contains(number))
            .ok_or_else(|| format!("`{name}` is a number from {} to {}", bounds.start(), bounds.end())),
    };
    let size = |text: &str| text.trim().parse().ok().filter(|size| (1..=16_384).contains(size));
    let mut sizes: Vec<u32> = match parameters.get("sizes") {
        None => SIZES.to_vec(),
        Some(text) => text
            .split(',')
            .map(size)
            .collect::<Option<_>>()
            .ok_or("`sizes` are numbers from 1 to 16384 with commas between")?,
    };
    sizes.sort_unstable();
    sizes.dedup();
    let adapt = match parameters.get("adapt").map(String::as_str) {
        None | Some("false") => false,
        Some("true") => true,
        Some(_) => return Err("`adapt` is \"true\" or \"false\"".into()),
    };
    let pixels_max = number("pixels_max", PIXELS_MAX, 1..=1_000_000_000)?;
    let quality = number("quality", u64::from(QUALITY), 1..=100)? as u8;
    Ok(Arc::new(Images { pixels_max, quality, sizes: sizes.into(), adapt }))
}

impl Make for Images {
    fn start(&self, content: &mut Content) -> Option<Box<dyn Filter>> {
        let query = content.query.as_deref()?;
        let source = Format::ALL.into_iter().find(|format| content.is_of(&[format.media_type()]))?;
        if !content.is_plain() {
            return None;
        }
        let recipe = Recipe::parse(query, &self.sizes, None);
        let into = recipe.as_ref().map_or(source, |recipe| recipe.format(source));
        content.media_type = into.media_type().to_owned();
        let (pixels_max, quality) = (self.pixels_max, self.quality);
        let (leave, room) = (content.leave.clone(), content.room.clone());
        Some(Box::new(Making { bytes: Vec::new(), source, into, recipe, pixels_max, quality, leave, room }))
    }

    fn recipe(&self, query: &[u8], lines: Lines<'_>) -> Option<String> {
        let query = std::str::from_utf8(query).ok()?;
        let adapted_width = self.adapted_width(query, lines);
        if adapted_width.is_none() && !query.split('&').any(is_step) {
            return None;
        }
        let takes_webp = || takes_webp(lines);
        let recipe = Recipe::parse(query, &self.sizes, Some(&takes_webp));
        let recipe = recipe.map(|recipe| match adapted_width {
            Some(width) => recipe.adapted(width, takes_webp()),
            None => recipe,
        });
        Some(recipe.map_or_else(|why| format!("{WRONG}{why}"), |recipe| recipe.to_string()))
    }

    fn is_preference(&self, recipe: &str) -> bool {
        recipe.split('&').any(|part| part == ADAPTED)
    }

    fn varies_by(&self) -> &'static [&'static str] {
        if self.adapt { client_hints::FIELDS } else { &[] }
    }

    fn client_hints(&self) -> &'static [&'static str] {
        if self.adapt { client_hints::ASKED_FOR } else { &[] }
    }

    fn has_recipes(&self) -> bool {
        true
    }

    fn scales_pictures(&self) -> bool {
        true
    }

    fn needs_whole(&self) -> bool {
        true
    }
}

impl Images {
    /// The width to which what the client says of itself bounds the picture, if the query does not.
    fn adapted_width(&self, query: &str, lines: Lines<'_>) -> Option<u32> {
        let says_itself = |part: &str| part == NOT_ADAPTED || part.starts_with("scale=");
        if !self.adapt || query.split('&').any(says_itself) {
            return None;
        }
        let hints = ClientHints::of(lines);
        let width = hints.picture_width().or(hints.saves_data.then_some(SAVING_WIDTH))?;
        Some(rounded_up(width, &self.sizes))
    }
}

/// Whether the client takes WebP. A browser says it; a client that takes anything has not thought of it.
fn takes_webp(lines: Lines<'_>) -> bool {
    let accepted = lines("accept");
    let is_named = accepted.iter().any(|line| line.windows(WEBP.len()).any(|part| part == WEBP.as_bytes()));
    is_named && accepts_media(accepted.iter().copied(), WEBP)
}

/// A part of a query that asks for a picture as it is, whatever the client says of itself.
const NOT_ADAPTED: &str = "adapt=off";
/// The width for who saves data and does not say what he shows.
const SAVING_WIDTH: u32 = 828;

const WEBP: &str = "image/webp";
/// A part of a recipe that was adapted, and nothing else.
const ADAPTED: &str = "adapted";
/// Begins what stands in the place of a recipe that is wrong.
const WRONG: &str = "wrong=";

/// Whether a part of a query is for this filter.
fn is_step(part: &str) -> bool {
    let (name, _) = part.split_once('=').unwrap_or((part, ""));
    matches!(name, "scale" | "crop" | "rotate" | "dither" | "gamma" | "smooth" | "format")
}

/// A request for a form of a picture.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Recipe {
    steps: Vec<Step>,
    format: Option<Wanted>,
    /// The client did not ask for all of it: a picture that would not get smaller is given as it is.
    is_adapted: bool,
}

/// Into which format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wanted {
    This(Format),
    /// That of the picture, or WebP where it is smaller and taken.
    Auto {
        takes_webp: bool,
    },
}

/// One step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// To fit, never larger.
    Scale { width: Option<u32>, height: Option<u32> },
    /// The largest section of this shape, from the middle.
    Shape { width: u32, height: u32 },
    /// A section, in per cent.
    Section(Section),
    /// Quarters of a turn to the right.
    Rotate(u32),
    /// To so many values of each colour.
    Dither(u32),
    /// In tenths.
    Gamma(u32),
    /// Pixels around each.
    Smooth(u32),
}

impl Recipe {
    /// Parses the parts of a query that are for this filter. If it is not a recipe already, `takes_webp` is asked for
    /// `format=auto`.
    fn parse(query: &str, sizes: &[u32], takes_webp: Option<&dyn Fn() -> bool>) -> Result<Recipe, String> {
        if let Some(why) = query.strip_prefix(WRONG) {
            return Err(why.to_owned());
        }
        let mut recipe = Recipe::default();
        // In a request that word means nothing. A recipe may have one step more, by which it was adapted.
        let is_recipe = takes_webp.is_none();
        recipe.is_adapted = is_recipe && query.split('&').any(|part| part == ADAPTED);
        let steps_max = STEPS_MAX + usize::from(is_recipe);
        for part in query.split('&').filter(|part| is_step(part)) {
            let (name, value) = part.split_once('=').unwrap_or((part, ""));
            let value = match value.contains('%') {
                true => value.replace("%2C", ",").replace("%2c", ",").replace("%3A", ":").replace("%3a", ":").into(),
                false => Cow::Borrowed(value),
            };
            if name == "format" {
                recipe.format = Some(wanted(&value, takes_webp).ok_or("`format` is auto, jpeg, png or webp")?);
                continue;
            }
            if recipe.steps.len() == steps_max {
                return Err(format!("there are more than {STEPS_MAX} steps"));
            }
            recipe.steps.push(step(name, &value, sizes)?);
        }
        Ok(recipe)
    }

    /// The recipe limited to this width, and in the format that suits the client.
    fn adapted(mut self, width: u32, takes_webp: bool) -> Recipe {
        // Only what was asked for changes a picture that is small enough.
        self.is_adapted = self.steps.is_empty() && self.format.is_none();
        self.steps.push(Step::Scale { width: Some(width), height: None });
        self.format.get_or_insert(Wanted::Auto { takes_webp });
        self
    }

    fn format(&self, source: Format) -> Format {
        match self.format {
            None => source,
            Some(Wanted::This(format)) => format,
            // What is written without loss is larger than a photograph.
            Some(Wanted::Auto { takes_webp: true }) if source == Format::Png => Format::WebP,
            Some(Wanted::Auto { takes_webp: false }) if source == Format::WebP => Format::Png,
            Some(Wanted::Auto { .. }) => source,
        }
    }
}

fn wanted(value: &str, takes_webp: Option<&dyn Fn() -> bool>) -> Option<Wanted> {
    Some(match value {
        "auto" => Wanted::Auto { takes_webp: takes_webp.is_some_and(|takes| takes()) },
        // As a recipe says it.
        "auto:webp" if takes_webp.is_none() => Wanted::Auto { takes_webp: true },
        "jpg" => Wanted::This(Format::Jpeg),
        name => Wanted::This(Format::ALL.into_iter().find(|format| format.name() == name)?),
    })
}

fn step(name: &str, value: &str, sizes: &[u32]) -> Result<Step, String> {
    let number = |text: &str, bounds: std::ops::RangeInclusive<u32>| {
        text.parse::<u32>().ok().filter(|number| bounds.contains(number))
    };
    let said = |what: &str| format!("`{name}` is {what}");
    match name {
        "scale" => {
            let size = |text: &str| match text {
                "" => Some(None),
                text => number(text, 1..=16_384).map(|asked| Some(rounded_up(asked, sizes))),
            };
            let (width, height) = value.split_once('x').unwrap_or((value, ""));
            let both = size(width).zip(size(height)).filter(|both| *both != (None, None));
            let (width, height) =
                both.ok_or_else(|| said("a width, a height or both in pixels, as in 400, x300 or 400x300"))?;
            Ok(Step::Scale { width, height })
        }
        "crop" => {
            let shape = value.split_once(':').and_then(|(w, h)| number(w, 1..=32).zip(number(h, 1..=32)));
            let parts: Option<Vec<u32>> = value.split(',').map(|text| number(text, 0..=100)).collect();
            match (shape, parts.as_deref()) {
                (Some((width, height)), _) => {
                    let divisor = greatest_common_divisor(width, height);
                    Ok(Step::Shape { width: width / divisor, height: height / divisor })
                }
                (None, Some([left, top, width, height])) if *width > 0 && *height > 0 => {
                    let tens = |part: u32| (part + 5) / 10 * 10;
                    let (left, top) = (tens(*left).min(90), tens(*top).min(90));
                    let (width, height) = (tens(*width).clamp(10, 100 - left), tens(*height).clamp(10, 100 - top));
                    Ok(Step::Section(Section { left, top, width, height }))
                }
                _ => Err(said("a shape as in 16:9, or left, top, width and height in per cent as in 10,10,80,80")),
            }
        }
        "rotate" => match value {
            "90" => Ok(Step::Rotate(1)),
            "180" => Ok(Step::Rotate(2)),
            "270" => Ok(Step::Rotate(3)),
            _ => Err(said("90, 180 or 270")),
        },
        "dither" => {
            let values = number(value, 2..=256).ok_or_else(|| said("a number of values from 2 to 256"))?;
            Ok(Step::Dither(values.next_power_of_two()))
        }
        "gamma" => {
            let tenths = value.parse::<f32>().ok().filter(|gamma| (0.1..=5.0).contains(gamma));
            let tenths = tenths.ok_or_else(|| said("a number from 0.1 to 5"))?;
            Ok(Step::Gamma((tenths * 10.0).round() as u32))
        }
        _ => Ok(Step::Smooth(number(value, 1..=10).ok_or_else(|| said("a number of pixels from 1 to 10"))?)),
    }
}

/// The next of `sizes`, which are in order; the largest if there is none.
fn rounded_up(asked: u32, sizes: &[u32]) -> u32 {
    sizes.iter().copied().find(|size| *size >= asked).or(sizes.last().copied()).unwrap_or(asked)
}

fn greatest_common_divisor(one: u32, other: u32) -> u32 {
    if other == 0 { one } else { greatest_common_divisor(other, one % other) }
}

impl fmt::Display for Recipe {
    /// As it would be written: the name of what it makes.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut between = "";
        for step in &self.steps {
            f.write_str(std::mem::replace(&mut between, "&"))?;
            match step {
                Step::Scale { width, height } => {
                    f.write_str("scale=")?;
                    if let Some(width) = width {
                        write!(f, "{width}")?;
                    }
                    if let Some(height) = height {
                        write!(f, "x{height}")?;
                    }
                }
                Step::Shape { width, height } => write!(f, "crop={width}:{height}")?,
                Step::Section(Section { left, top, width, height }) => write!(f, "crop={left},{top},{width},{height}")?,
                Step::Rotate(quarters) => write!(f, "rotate={}", quarters * 90)?,
                Step::Dither(values) => write!(f, "dither={values}")?,
                Step::Gamma(tenths) => write!(f, "gamma={}.{}", tenths / 10, tenths % 10)?,
                Step::Smooth(radius) => write!(f, "smooth={radius}")?,
            }
        }
        match self.format {
            None => Ok(()),
            Some(Wanted::This(format)) => write!(f, "{between}format={}", format.name()),
            Some(Wanted::Auto { takes_webp: true }) => write!(f, "{between}format=auto:webp"),
            Some(Wanted::Auto { takes_webp: false }) => write!(f, "{between}format=auto"),
        }?;
        if self.is_adapted { write!(f, "&{ADAPTED}") } else { Ok(()) }
    }
}

struct Making {
    bytes: Vec<u8>,
    source: Format,
    into: Format,
    recipe: Result<Recipe, String>,
    pixels_max: u64,
    quality: u8,
    leave: Option<Leave>,
    room: Option<Room>,
}

impl Making {
    /// # Errors
    /// The time for it is over.
    fn go_on(&self) -> Result<(), Fault> {
        match self.leave.as_ref().is_none_or(Leave::is_given) {
            true => Ok(()),
            false => Err(Fault::TooSlow),
        }
    }
}

impl Filter for Making {
    fn take(&mut self, piece: &[u8], _: &mut Vec<u8>) -> Result<(), Fault> {
        self.bytes.extend_from_slice(piece);
        Ok(())
    }

    fn finish(&mut self, out: &mut Vec<u8>) -> Result<(), Fault> {
        let recipe = self.recipe.as_ref().map_err(|why| Fault::Request(why.clone()))?;
        // For reading, for every step and for writing: it is held to the end.
        let mut bounds = codecs::Bounds::new(self.pixels_max, self.room.as_ref());
        // Names are often wrong: programs that show pictures go by what they are.
        let format = Format::of(&self.bytes).unwrap_or(self.source);
        let codecs::Decoded { mut picture, profile } = codecs::read(format, &self.bytes, &mut bounds)?;
        let is_as_it_was = recipe.is_adapted && self.into == self.source;
        let as_it_was = is_as_it_was.then(|| std::mem::take(&mut self.bytes));
        self.bytes = Vec::new();
        for step in &recipe.steps {
            self.go_on()?;
            picture = match *step {
                Step::Scale { width, height } => picture.scaled(width, height),
                Step::Shape { width, height } => picture.shaped(width, height),
                Step::Section(section) => picture.section(section),
                Step::Rotate(quarters) => picture.rotated(quarters),
                Step::Dither(values) => picture.dithered(values),
                Step::Gamma(tenths) => picture.with_gamma(tenths),
                Step::Smooth(radius) => picture.smoothed(radius as usize),
            };
        }
        self.go_on()?;
        let begins_at = out.len();
        codecs::write(self.into, codecs::Decoded { picture, profile }, self.quality, out)?;
        if let Some(bytes) = as_it_was.filter(|bytes| bytes.len() <= out.len() - begins_at) {
            out.truncate(begins_at);
            out.extend_from_slice(&bytes);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
