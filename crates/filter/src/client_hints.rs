//! Client hints (RFC 8942) and `Save-Data`: a client's statements about itself, by which a fitting answer is chosen.
//!
//! Owns: [`ClientHints`], as a request has them. Guarantees: a hint that is malformed, out of bounds or said twice is
//! none; what a client says is only a number in bounds here. Decides nothing.

use crate::Lines;

/// The hints that a site asks clients for, as in `Accept-CH`.
pub(crate) const ASKED_FOR: &[&str] = &["Sec-CH-DPR", "Sec-CH-Width", "Sec-CH-Viewport-Width"];

/// The fields that [`ClientHints`] are read from, as in `Vary`. The names without `Sec-CH-` are those of older
/// browsers.
pub(crate) const FIELDS: &[&str] =
    &["Save-Data", "Sec-CH-DPR", "Sec-CH-Width", "Sec-CH-Viewport-Width", "DPR", "Width", "Viewport-Width"];

/// Pixels, at most: no screen is larger.
const WIDTH_MAX: u32 = 16_384;
/// Physical pixels for each pixel of a style sheet, in hundredths: more cannot be told apart by anybody.
const DENSITY_MAX_PERCENT: u32 = 400;

/// The hints of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ClientHints {
    /// It wants little to be sent.
    pub(crate) saves_data: bool,
    /// The width at which the picture will be shown, in physical pixels.
    pub(crate) width: Option<u32>,
    /// The width of its window, in pixels of style sheets.
    pub(crate) viewport_width: Option<u32>,
    /// Physical pixels for each of those, in hundredths.
    pub(crate) density_percent: Option<u32>,
}

impl ClientHints {
    /// Those of a request.
    pub(crate) fn of(lines: Lines<'_>) -> ClientHints {
        let only = |name| match lines(name)[..] {
            [line] => std::str::from_utf8(line).ok().map(str::trim),
            _ => None,
        };
        let either = |name, old| only(name).or_else(|| only(old));
        let pixels = |text: &str| text.parse().ok().filter(|pixels| (1..=WIDTH_MAX).contains(pixels));
        ClientHints {
            saves_data: lines("save-data").into_iter().any(is_on),
            width: either("sec-ch-width", "width").and_then(pixels),
            viewport_width: either("sec-ch-viewport-width", "viewport-width").and_then(pixels),
            density_percent: either("sec-ch-dpr", "dpr").and_then(density_percent),
        }
    }

    /// The width that a picture needs to have, in pixels; none if nothing is known of it. Who saves data is given one
    /// for each pixel of a style sheet.
    pub(crate) fn picture_width(&self) -> Option<u32> {
        let density_percent = self.density_percent.unwrap_or(100);
        match (self.width, self.viewport_width) {
            (Some(width), _) if self.saves_data => Some((width * 100).div_ceil(density_percent.max(100))),
            (Some(width), _) => Some(width),
            (None, Some(width)) if self.saves_data => Some(width),
            (None, Some(width)) => Some((width * density_percent).div_ceil(100)),
            (None, None) => None,
        }
    }
}

/// Whether a line of `Save-Data` is `on`, with or without parameters.
pub(crate) fn is_on(line: &[u8]) -> bool {
    line.split(|byte| *byte == b';').next().is_some_and(|token| token.trim_ascii().eq_ignore_ascii_case(b"on"))
}

/// A decimal number (RFC 9651, 3.3.2) as hundredths.
fn density_percent(text: &str) -> Option<u32> {
    let is_decimal = text.len() <= 8 && text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    let density: f64 = text.parse().ok().filter(|_| is_decimal)?;
    (density >= 0.1).then(|| ((density * 100.0).round() as u32).min(DENSITY_MAX_PERCENT))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(fields: &[(&str, &str)]) -> ClientHints {
        ClientHints::of(&|name| {
            let own = fields.iter().filter(|(other, _)| other.eq_ignore_ascii_case(name));
            own.map(|(_, value)| value.as_bytes()).collect()
        })
    }

    #[test]
    fn a_picture_has_the_pixels_that_are_shown_and_fewer_for_who_saves_data() {
        for (fields, expected) in [
            (&[][..], None),
            (&[("Sec-CH-DPR", "2")], None),
            (&[("Save-Data", "on")], None),
            (&[("Sec-CH-Width", "600"), ("Sec-CH-Viewport-Width", "1000")], Some(600)),
            (&[("Sec-CH-Viewport-Width", "360")], Some(360)),
            (&[("Sec-CH-Viewport-Width", "360"), ("Sec-CH-DPR", "2.625")], Some(947)),
            (&[("Viewport-Width", "360"), ("DPR", "2.0")], Some(720)),
            (&[("Sec-CH-Viewport-Width", "360"), ("Sec-CH-DPR", "3"), ("Save-Data", "ON; a=1")], Some(360)),
            (&[("Sec-CH-Width", "900"), ("Sec-CH-DPR", "3"), ("Save-Data", "on")], Some(300)),
            (&[("Sec-CH-Width", "900"), ("Sec-CH-DPR", "0.5"), ("Save-Data", "on")], Some(900)),
            (&[("Sec-CH-Viewport-Width", "100"), ("Sec-CH-DPR", "99")], Some(400)),
        ] {
            assert_eq!(of(fields).picture_width(), expected, "{fields:?}");
        }
    }

    #[test]
    fn a_hint_that_is_malformed_out_of_bounds_or_said_twice_is_none() {
        for value in ["", "0", "-1", "1.5", "a", "16385", "99999999999999999999", "1, 2", "\"5\""] {
            assert_eq!(of(&[("Sec-CH-Width", value)]), ClientHints::default(), "{value}");
        }
        for value in ["", "0", "-1", "a", "inf", "NaN", "1e3", "0.01", "1,5", "..", "."] {
            assert_eq!(of(&[("Sec-CH-DPR", value)]), ClientHints::default(), "{value}");
        }
        assert_eq!(of(&[("Sec-CH-Width", "5"), ("Sec-CH-Width", "5")]), ClientHints::default());
        assert_eq!(of(&[("Save-Data", "off")]), ClientHints::default());
    }

    proptest! {
        #[test]
        fn whatever_a_client_says_a_width_is_in_bounds(values in prop::collection::vec("[0-9.on ;-]{0,9}", 7)) {
            let fields: Vec<_> = FIELDS.iter().zip(&values).map(|(name, value)| (*name, &**value)).collect();
            if let Some(width) = of(&fields).picture_width() {
                prop_assert!((1..=4 * WIDTH_MAX).contains(&width));
            }
        }
    }
}
