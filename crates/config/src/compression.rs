//! Compression as a setting: codings, and sizes of content. `cache::compress` carries it out.

use lamna_proto::exchange::negotiate::Coding;
pub use lamna_proto::exchange::negotiate::CodingSet;

/// The codings that are made, and the sizes of content that is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Compression {
    /// The codings that are made. None: nothing is compressed.
    pub codings: CodingSet,
    /// Content of fewer bytes is left alone: with its head it fits into one packet anyway.
    pub bytes_min: u64,
    /// Content of more bytes is left alone.
    pub bytes_max: u64,
}

impl Default for Compression {
    fn default() -> Compression {
        Compression { codings: CodingSet::ALL, bytes_min: 1024, bytes_max: 4 << 20 }
    }
}

impl Compression {
    /// None of it.
    pub const OFF: Compression = Compression { codings: CodingSet::IDENTITY, bytes_min: 1, bytes_max: 0 };

    /// Whether content of so many bytes is compressed.
    pub fn applies_to(&self, bytes: u64) -> bool {
        self.codings != CodingSet::IDENTITY && (self.bytes_min..=self.bytes_max).contains(&bytes)
    }

    /// The codings as text, as in `br,zstd,gzip`, or `off`.
    pub fn codings_text(&self) -> String {
        let made = CODINGS.into_iter().filter(|coding| self.codings.contains(*coding));
        let names: Vec<&str> = made.map(Coding::name).collect();
        if names.is_empty() { "off".to_owned() } else { names.join(",") }
    }

    /// The codings that a text like `br,gzip` or `off` names.
    ///
    /// # Errors
    /// The expected form.
    pub fn codings_from_text(text: &str) -> Result<CodingSet, String> {
        if text == "off" {
            return Ok(CodingSet::IDENTITY);
        }
        let mut codings = CodingSet::IDENTITY;
        for name in text.split(',').map(str::trim) {
            let coding = CODINGS.iter().find(|one| one.name() == name);
            codings = codings.with(*coding.ok_or("expected `off`, or some of br, zstd and gzip with commas between")?);
        }
        Ok(codings)
    }
}

/// The codings, in the order in which they are preferred.
pub const CODINGS: [Coding; 3] = [Coding::Brotli, Coding::Zstd, Coding::Gzip];
