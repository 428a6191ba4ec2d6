//! Which of the three caches of Flash (5.2 to 5.4) are in use, so that what each contributes can be measured.
//!
//! Owns: the switches and their names. Guarantees: what a cache would have spared is done again for each request when
//! it is off, and content and validators are the same. Does not keep anything.

/// The switches. All are on, except in measurements of single caches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheSwitches {
    /// From a target to its files. Off: names are resolved, opened and looked at again for each request.
    pub translations: bool,
    /// Heads of answers, and what they describe. Off: they are built again for each request.
    pub entries: bool,
    /// Content of small files. Off: it is sent from the file, as that of large ones.
    pub content: bool,
}

impl CacheSwitches {
    /// All three.
    pub const ALL: CacheSwitches = CacheSwitches { translations: true, entries: true, content: true };
    /// None: nothing is kept from one request to the next.
    pub const NONE: CacheSwitches = CacheSwitches { translations: false, entries: false, content: false };

    /// Whether nothing is kept.
    pub fn are_off(self) -> bool {
        self == CacheSwitches::NONE
    }

    /// Whether codings that are made while serving can be kept: they are content, with heads of their own.
    pub fn keep_codings(self) -> bool {
        self.entries && self.content
    }

    /// Their names, as in `translations,entries,content`, or `off`.
    pub fn text(self) -> String {
        let switches = [self.translations, self.entries, self.content];
        let names: Vec<&str> =
            NAMES.into_iter().zip(switches).filter(|(_, is_on)| *is_on).map(|(name, _)| name).collect();
        if names.is_empty() { "off".to_owned() } else { names.join(",") }
    }

    /// The caches that a text like `translations,content` or `off` names.
    ///
    /// # Errors
    /// The expected form.
    pub fn from_text(text: &str) -> Result<CacheSwitches, String> {
        let mut caches = CacheSwitches::NONE;
        if text == "off" {
            return Ok(caches);
        }
        for name in text.split(',').map(str::trim) {
            match NAMES.iter().position(|one| *one == name) {
                Some(0) => caches.translations = true,
                Some(1) => caches.entries = true,
                Some(_) => caches.content = true,
                None => {
                    return Err(
                        "expected `off`, or some of translations, entries and content with commas between".into()
                    );
                }
            }
        }
        Ok(caches)
    }
}

impl Default for CacheSwitches {
    fn default() -> CacheSwitches {
        CacheSwitches::ALL
    }
}

pub(super) const NAMES: [&str; 3] = ["translations", "entries", "content"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_combination_is_named_and_found_by_its_name() {
        for number in 0..8 {
            let caches =
                CacheSwitches { translations: number & 1 > 0, entries: number & 2 > 0, content: number & 4 > 0 };
            assert_eq!(CacheSwitches::from_text(&caches.text()), Ok(caches));
        }
        assert_eq!(CacheSwitches::ALL.text(), "translations,entries,content");
        assert_eq!(CacheSwitches::NONE.text(), "off");
        assert!(CacheSwitches::from_text("translations,heads").is_err());
        assert!(CacheSwitches::from_text("").is_err());
    }
}
