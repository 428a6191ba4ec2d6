//! The effect of steps on pixels.
//!
//! Owns: [`Picture`]. Guarantees: no step makes a picture larger than it is, nor one without pixels; work and memory
//! are bounded by its pixels: a step has what there was and what there will be, and a few rows.

use std::collections::VecDeque;

/// A picture: rows of pixels of three bytes (red, green, blue) or four (and how opaque).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Picture {
    pub(super) width: usize,
    pub(super) height: usize,
    /// Bytes of a pixel.
    pub(super) channels: usize,
    pub(super) bytes: Vec<u8>,
}

/// A section of a picture, in per cent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Section {
    pub(super) left: u32,
    pub(super) top: u32,
    pub(super) width: u32,
    pub(super) height: u32,
}

impl Picture {
    /// To fit into a width and a height; not larger.
    pub(super) fn scaled(self, width: Option<u32>, height: Option<u32>) -> Picture {
        let share = |size: Option<u32>, whole: usize| size.map_or(1.0, |size| f64::from(size) / whole as f64);
        let by = share(width, self.width).min(share(height, self.height));
        if by >= 1.0 {
            return self;
        }
        let of = |whole: usize| ((whole as f64 * by).round() as usize).clamp(1, whole);
        let (width, height) = (of(self.width), of(self.height));
        let of_one = (self.width as f64 / width as f64, self.height as f64 / height as f64);
        // Colours of what cannot be seen do not count.
        let (picture, by) = self.premultiplied().shrunk(width, height);
        // What was shrunk may have lost a few pixels at its end: what is left is where it was.
        picture.resampled(width, height, (of_one.0 / by as f64, of_one.1 / by as f64)).unmultiplied()
    }

    /// The largest section with this relation of width to height, from the middle.
    pub(super) fn shaped(self, width: u32, height: u32) -> Picture {
        let (of_width, of_height) = (width as usize, height as usize);
        let width = (self.height * of_width / of_height).clamp(1, self.width);
        let height = (self.width * of_height / of_width).clamp(1, self.height);
        let (left, top) = ((self.width - width) / 2, (self.height - height) / 2);
        self.cut(left, top, width, height)
    }

    pub(super) fn section(self, section: Section) -> Picture {
        let part = |per_cent: u32, whole: usize| per_cent.min(100) as usize * whole / 100;
        let left = part(section.left, self.width).min(self.width - 1);
        let top = part(section.top, self.height).min(self.height - 1);
        let width = part(section.width, self.width).clamp(1, self.width - left);
        let height = part(section.height, self.height).clamp(1, self.height - top);
        self.cut(left, top, width, height)
    }

    fn cut(self, left: usize, top: usize, width: usize, height: usize) -> Picture {
        let mut bytes = Vec::with_capacity(width * height * self.channels);
        for row in self.bytes.chunks_exact(self.width * self.channels).skip(top).take(height) {
            bytes.extend_from_slice(&row[left * self.channels..(left + width) * self.channels]);
        }
        Picture { width, height, bytes, ..self }
    }

    /// Each value of a colour is that of the table.
    pub(super) fn mapped(mut self, table: &[u8; 256]) -> Picture {
        for pixel in self.bytes.chunks_exact_mut(self.channels) {
            pixel[..3].iter_mut().for_each(|byte| *byte = table[usize::from(*byte)]);
        }
        self
    }

    /// Quarters of a turn to the right.
    pub(super) fn rotated(self, quarters: u32) -> Picture {
        let (width, height, channels) = (self.width, self.height, self.channels);
        let (new_width, new_height) = if quarters % 2 == 1 { (height, width) } else { (width, height) };
        let mut bytes = Vec::with_capacity(self.bytes.len());
        for y in 0..new_height {
            for x in 0..new_width {
                let (from_x, from_y) = match quarters % 4 {
                    1 => (y, height - 1 - x),
                    2 => (width - 1 - x, height - 1 - y),
                    3 => (width - 1 - y, x),
                    _ => (x, y),
                };
                let at = (from_y * width + from_x) * channels;
                bytes.extend_from_slice(&self.bytes[at..at + channels]);
            }
        }
        Picture { width: new_width, height: new_height, channels, bytes }
    }

    /// Left and right change places.
    pub(super) fn mirrored(mut self) -> Picture {
        let channels = self.channels;
        for row in self.bytes.chunks_exact_mut(self.width * channels) {
            row.reverse();
            // The bytes of each pixel are the wrong way round now.
            row.chunks_exact_mut(channels).for_each(<[u8]>::reverse);
        }
        self
    }

    /// Each colour has so many values; what is lost is spread over the pixels that follow (Floyd and Steinberg).
    pub(super) fn dithered(mut self, values: u32) -> Picture {
        let (channels, colours) = (self.channels, 3);
        let steps = values.clamp(2, 256) as i32 - 1;
        let row_length = self.width * colours;
        // Sixteenths that are owed to this row and the next, with a pixel on each side.
        let mut owed = vec![0_i32; row_length + 2 * colours];
        let mut owed_next = owed.clone();
        for row in self.bytes.chunks_exact_mut(self.width * channels) {
            for (x, pixel) in row.chunks_exact_mut(channels).enumerate() {
                for (colour, byte) in pixel[..colours].iter_mut().enumerate() {
                    let at = (x + 1) * colours + colour;
                    let wanted = (i32::from(*byte) + owed[at] / 16).clamp(0, 255);
                    let value = (wanted * steps + 127) / 255 * 255 / steps;
                    let lost = wanted - value;
                    *byte = value as u8;
                    owed[at + colours] += 7 * lost;
                    owed_next[at - colours] += 3 * lost;
                    owed_next[at] += 5 * lost;
                    owed_next[at + colours] += lost;
                }
            }
            std::mem::swap(&mut owed, &mut owed_next);
            owed_next.fill(0);
        }
        self
    }

    /// Lighter above 10 tenths, darker below.
    pub(super) fn with_gamma(mut self, tenths: u32) -> Picture {
        let exponent = 10.0 / f64::from(tenths.max(1));
        let table: Vec<u8> =
            (0..256).map(|value| ((f64::from(value) / 255.0).powf(exponent) * 255.0).round() as u8).collect();
        for pixel in self.bytes.chunks_exact_mut(self.channels) {
            pixel[..3].iter_mut().for_each(|byte| *byte = table[usize::from(*byte)]);
        }
        self
    }

    /// Each pixel is the mean of those around it, up to `radius` away in each direction.
    pub(super) fn smoothed(self, radius: usize) -> Picture {
        let picture = self.premultiplied();
        picture.smoothed_across(radius).turned_over().smoothed_across(radius).turned_over().unmultiplied()
    }

    fn smoothed_across(mut self, radius: usize) -> Picture {
        let (width, channels) = (self.width, self.channels);
        let mut row = vec![0; width * channels];
        for bytes in self.bytes.chunks_exact_mut(width * channels) {
            row.copy_from_slice(bytes);
            for channel in 0..channels {
                let at = |x: usize| u32::from(row[x * channels + channel]);
                let mut sum: u32 = (0..width.min(radius)).map(at).sum();
                for x in 0..width {
                    if x + radius < width {
                        sum += at(x + radius);
                    }
                    if x > radius {
                        sum -= at(x - radius - 1);
                    }
                    let count = ((x + radius).min(width - 1) - x.saturating_sub(radius) + 1) as u32;
                    bytes[x * channels + channel] = ((sum + count / 2) / count) as u8;
                }
            }
        }
        self
    }

    /// Rows become columns.
    fn turned_over(self) -> Picture {
        let (width, height, channels) = (self.width, self.height, self.channels);
        let mut bytes = Vec::with_capacity(self.bytes.len());
        for x in 0..width {
            for y in 0..height {
                let at = (y * width + x) * channels;
                bytes.extend_from_slice(&self.bytes[at..at + channels]);
            }
        }
        Picture { width: height, height: width, channels, bytes }
    }

    fn premultiplied(mut self) -> Picture {
        if self.channels == 4 {
            for pixel in self.bytes.chunks_exact_mut(4) {
                let opaque = u32::from(pixel[3]);
                pixel[..3].iter_mut().for_each(|byte| *byte = ((u32::from(*byte) * opaque + 127) / 255) as u8);
            }
        }
        self
    }

    fn unmultiplied(mut self) -> Picture {
        if self.channels == 4 {
            for pixel in self.bytes.chunks_exact_mut(4) {
                let opaque = u32::from(pixel[3]);
                if opaque > 0 {
                    pixel[..3]
                        .iter_mut()
                        .for_each(|byte| *byte = ((u32::from(*byte) * 255 + opaque / 2) / opaque).min(255) as u8);
                }
            }
        }
        self
    }

    /// By a whole number, so that it stays at least twice as large as it is to be: quick, and what is left is little.
    /// By which, too.
    fn shrunk(self, width: usize, height: usize) -> (Picture, usize) {
        let by = (self.width / (2 * width)).min(self.height / (2 * height)).min(SHRUNK_MAX);
        if by < 2 {
            return (self, 1);
        }
        let (new_width, new_height, channels) = (self.width / by, self.height / by, self.channels);
        let mut bytes = Vec::with_capacity(new_width * new_height * channels);
        let mut sums = vec![0_u16; new_width * by * channels];
        let area = (by * by) as u32;
        for rows in self.bytes.chunks_exact(self.width * channels * by).take(new_height) {
            sums.fill(0);
            for row in rows.chunks_exact(self.width * channels) {
                sums.iter_mut().zip(row).for_each(|(sum, byte)| *sum += u16::from(*byte));
            }
            for group in sums.chunks_exact(by * channels) {
                for channel in 0..channels {
                    let sum: u32 = group.iter().skip(channel).step_by(channels).map(|sum| u32::from(*sum)).sum();
                    bytes.push(((sum + area / 2) / area) as u8);
                }
            }
        }
        let (picture, further) =
            Picture { width: new_width, height: new_height, channels, bytes }.shrunk(width, height);
        (picture, by * further)
    }

    /// With Lanczos' window of three lobes: each pixel that is made is of so many, across and down.
    fn resampled(self, width: usize, height: usize, of: (f64, f64)) -> Picture {
        let channels = self.channels;
        let (across, down) = (Taps::new(self.width, width, of.0), Taps::new(self.height, height, of.1));
        let mut rows = self.bytes.chunks_exact(self.width * channels);
        // Rows of the new width, from `first` on: those that the next row is made of, and no more.
        let (mut between, mut first): (VecDeque<Vec<f32>>, usize) = (VecDeque::new(), 0);
        let mut bytes = Vec::with_capacity(width * height * channels);
        let mut sums = vec![0_f32; width * channels];
        for (from, weights) in down.each() {
            let mut spare = None;
            while first < from {
                // A row that nothing was made of has to be passed over, too.
                match between.pop_front() {
                    Some(row) => spare = Some(row),
                    None => drop(rows.next()),
                }
                first += 1;
            }
            while between.len() < weights.len() {
                let Some(row) = rows.next() else { break };
                let mut made = spare.take().unwrap_or_else(|| vec![0.0; width * channels]);
                across_row(row, &across, channels, &mut made);
                between.push_back(made);
            }
            sums.fill(0.0);
            for (weight, row) in weights.iter().zip(&between) {
                sums.iter_mut().zip(row).for_each(|(sum, value)| *sum += weight * value);
            }
            // What overshoots is the lightest or darkest that there is.
            bytes.extend(sums.iter().map(|sum| sum.round() as u8));
        }
        Picture { width, height, channels, bytes }
    }
}

/// One row of the new width.
fn across_row(row: &[u8], across: &Taps, channels: usize, made: &mut [f32]) {
    made.fill(0.0);
    for ((from, weights), pixel) in across.each().zip(made.chunks_exact_mut(channels)) {
        for (weight, of) in weights.iter().zip(row[from * channels..].chunks_exact(channels)) {
            pixel.iter_mut().zip(of).for_each(|(sum, byte)| *sum += weight * f32::from(*byte));
        }
    }
}

/// So many rows at once: the sum of their bytes is that of 16 bits.
const SHRUNK_MAX: usize = 128;

/// Which pixels count for each that is made, and how much.
struct Taps {
    /// The first, and where its weights end.
    each: Vec<(usize, usize)>,
    weights: Vec<f32>,
}

const LOBES: f64 = 3.0;

impl Taps {
    fn new(from: usize, to: usize, step: f64) -> Taps {
        let reach = LOBES * step.max(1.0);
        let mut taps = Taps { each: Vec::with_capacity(to), weights: Vec::new() };
        for at in 0..to {
            let middle = (at as f64 + 0.5) * step;
            let first = ((middle - reach).max(0.0).floor() as usize).min(from - 1);
            let end = ((middle + reach).ceil() as usize).min(from).max(first + 1);
            let weight = |pixel: usize| lanczos((pixel as f64 + 0.5 - middle) / step.max(1.0));
            let sum: f64 = (first..end).map(weight).sum();
            taps.weights.extend((first..end).map(|pixel| (weight(pixel) / sum) as f32));
            taps.each.push((first, taps.weights.len()));
        }
        taps
    }

    fn each(&self) -> impl Iterator<Item = (usize, &[f32])> {
        let mut begin = 0;
        self.each.iter().map(move |(first, end)| (*first, &self.weights[std::mem::replace(&mut begin, *end)..*end]))
    }
}

fn lanczos(x: f64) -> f64 {
    let sinc = |x: f64| if x == 0.0 { 1.0 } else { (std::f64::consts::PI * x).sin() / (std::f64::consts::PI * x) };
    if x.abs() < LOBES { sinc(x) * sinc(x / LOBES) } else { 0.0 }
}
