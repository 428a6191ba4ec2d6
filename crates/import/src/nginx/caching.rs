//! `expires`, and times as nginx writes them.
//!
//! Owns: what they mean. Does not say for which paths.

/// `expires`: where it is said, and the `Cache-Control` that it means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Caching {
    pub(super) line: usize,
    pub(super) text: String,
    pub(super) value: String,
}

/// The `Cache-Control` that `expires` means; none inside for `off`.
pub(super) fn caching(time: &str) -> Option<Option<String>> {
    match time {
        "off" => Some(None),
        "epoch" => Some(Some("no-cache".into())),
        "max" => Some(Some("max-age=315360000".into())),
        time if time.starts_with('-') => Some(Some("no-cache".into())),
        time => milliseconds(time).map(|ms| Some(format!("max-age={}", ms / 1000))),
    }
}

/// `1d 12h`, `30m`, `5s`, `100ms`, or a number of seconds.
pub(super) fn milliseconds(time: &str) -> Option<u64> {
    let mut total = 0u64;
    let mut rest = time.trim_end();
    while !rest.is_empty() {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let number: u64 = rest[..digits].parse().ok()?;
        let unit: String = rest[digits..].chars().take_while(char::is_ascii_alphabetic).collect();
        let factor = match &*unit {
            "ms" => 1,
            "" | "s" => 1000,
            "m" => 60_000,
            "h" => 3_600_000,
            "d" => 86_400_000,
            "w" => 7 * 86_400_000,
            "M" => 30 * 86_400_000,
            "y" => 365 * 86_400_000,
            _ => return None,
        };
        total = total.checked_add(number.checked_mul(factor)?)?;
        rest = rest[digits + unit.len()..].trim_start();
    }
    (!time.is_empty()).then_some(total)
}

/// Adds what `expires` says, which nginx says before a `Cache-Control` of `add_header`.
pub(super) fn with_caching(caching: Option<&Caching>, fields: &mut Vec<(String, Vec<String>)>) {
    let Some(Caching { value, .. }) = caching else { return };
    match fields.iter_mut().find(|(name, _)| name.eq_ignore_ascii_case("Cache-Control")) {
        Some((_, own)) => own.insert(0, value.clone()),
        None => fields.push(("Cache-Control".into(), vec![value.clone()])),
    }
}
