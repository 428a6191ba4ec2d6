//! The filter `images`: other sizes, sections and formats of pictures, as the query of a request asks for them (JAWS framework paper, 3.5).
//!
//! ```text
//! ?scale=420&format=auto ── recipe ──> scale=512&format=webp ── start ──> decode, each step in the order written, encode
//! ```
//!
//! Owns: [`Recipe`], what is asked for with its values rounded, so that few different ones exist of each picture. `codecs` reads and writes the formats,
//! `pixels` carries steps out. Guarantees: a picture of too many pixels is refused before it is decoded; nothing gets larger than it was; malformed
//! pictures and recipes are faults; a picture that has no time left is given up between two steps. Needs the whole content. For files only.

mod codecs;
mod pixels;

use std::fmt;
use std::sync::Arc;

use lamna_proto::exchange::negotiate::prefer_media;

use crate::{Content, Fault, Filter, Kind, Leave, Lines, Make, Parameters};
use codecs::Format;
use pixels::Section;

/// The row of the table.
pub(crate) const KIND: Kind = Kind {
    name: "images",
    about: "Gives other sizes, sections and formats of pictures, as the query asks (JPEG, PNG, WebP).",
    version: 2,
    required: &[],
    optional: &[
        ("pixels_max", "Pixels of a picture that is read; more are refused. 40000000 unless it is said"),
        ("quality", "Of JPEG, from 1 to 100. 80 unless it is said"),
        ("sizes", "The widths and heights that there are, with commas between; others are rounded up to the next one"),
    ],
    make,
};

#[derive(Debug)]
struct Images {
    pixels_max: u64,
    quality: u8,
    sizes: Arc<[u32]>,
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
    let pixels_max = number("pixels_max", PIXELS_MAX, 1..=1_000_000_000)?;
    let quality = number("quality", u64::from(QUALITY), 1..=100)? as u8;
    Ok(Arc::new(Images { pixels_max, quality, sizes: sizes.into() }))
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
        let leave = content.leave.clone();
        Some(Box::new(Making { bytes: Vec::new(), source, into, recipe, pixels_max, quality, leave }))
    }

    fn recipe(&self, query: &[u8], lines: Lines<'_>) -> Option<String> {
        let query = std::str::from_utf8(query).ok()?;
        if !query.split('&').any(is_step) {
            return None;
        }
        let accepted = lines("accept");
        // A browser says that it takes WebP; one that takes anything has not thought of it.
        let is_named = accepted.iter().any(|line| line.windows(WEBP.len()).any(|part| part == WEBP.as_bytes()));
        let takes_webp = is_named && prefer_media(accepted.iter().copied(), &["image/x-none", WEBP]) == 1;
        let recipe = Recipe::parse(query, &self.sizes, Some(takes_webp));
        Some(recipe.map_or_else(|why| format!("{WRONG}{why}"), |recipe| recipe.to_string()))
    }

    fn has_recipes(&self) -> bool {
        true
    }

    fn needs_whole(&self) -> bool {
        true
    }
}

const WEBP: &str = "image/webp";
/// Begins what stands in the place of a recipe that is wrong.
const WRONG: &str = "wrong=";

/// Whether a part of a query is for this filter.
fn is_step(part: &str) -> bool {
    let (name, _) = part.split_once('=').unwrap_or((part, ""));
    matches!(name, "scale" | "crop" | "rotate" | "dither" | "gamma" | "smooth" | "format")
}

/// What is asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Recipe {
    steps: Vec<Step>,
    format: Option<Wanted>,
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
    /// Of the parts of a query that are for this filter. What a client takes counts for `format=auto`, if it is not a recipe already.
    fn parse(query: &str, sizes: &[u32], takes_webp: Option<bool>) -> Result<Recipe, String> {
        if let Some(why) = query.strip_prefix(WRONG) {
            return Err(why.to_owned());
        }
        let mut recipe = Recipe::default();
        for part in query.split('&').filter(|part| is_step(part)) {
            let (name, value) = part.split_once('=').unwrap_or((part, ""));
            let value = value.replace("%2C", ",").replace("%2c", ",").replace("%3A", ":").replace("%3a", ":");
            if name == "format" {
                recipe.format = Some(wanted(&value, takes_webp).ok_or("`format` is auto, jpeg, png or webp")?);
                continue;
            }
            if recipe.steps.len() == STEPS_MAX {
                return Err(format!("there are more than {STEPS_MAX} steps"));
            }
            recipe.steps.push(step(name, &value, sizes)?);
        }
        Ok(recipe)
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

fn wanted(value: &str, takes_webp: Option<bool>) -> Option<Wanted> {
    Some(match value {
        "auto" => Wanted::Auto { takes_webp: takes_webp.unwrap_or(false) },
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
        }
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
        let mut picture = codecs::read(self.source, &self.bytes, self.pixels_max)?;
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
        codecs::write(self.into, picture, self.quality, out)
    }
}

#[cfg(test)]
mod tests;
