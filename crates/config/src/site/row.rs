//! A key of a site: the parts that each has, and how everything goes through them.
//!
//! Owns: [`SiteKey`], [`Plain`], and `site_keys!`, which makes of one list (`rows`) the table as it is written,
//! [`SiteSettings`] with its defaults, and a [`Row`] for each entry. Guarantees: a row without one of its parts does
//! not compile, and `ROWS` has all of them.

use std::ops::Range;

use toml::Spanned;

use super::{SiteSettings, SiteTable};
use crate::checker::Checker;
use crate::key::{Form, Key};
use crate::page::{Page, bytes};
use crate::unit::Unit;
use crate::written::Amount;

/// The meaning of an entry that is no plain value: of one key, or of several that come to one value.
pub(crate) trait SiteKey {
    /// The value, which begins with its default.
    type Value;

    /// Judges what is written in the table at `at`.
    fn judge(given: &SiteTable, at: &Range<usize>, value: &mut Self::Value, checker: &mut Checker<'_>);

    /// Writes it again.
    fn render(value: &Self::Value, page: &mut Page);

    /// Judges it against the other keys of its site.
    fn conflict(_given: &SiteTable, _at: &Range<usize>, _site: &SiteSettings, _checker: &mut Checker<'_>) {}

    /// Judges it against the other sites.
    fn between(_tables: &[Spanned<SiteTable>], _sites: &[SiteSettings], _checker: &mut Checker<'_>) {}
}

/// A value whose key says all there is to it. `W` is its shape in the file.
pub(super) trait Plain<W> {
    /// Takes what is written, if it is there and within the bounds of the key.
    fn take(&mut self, given: &W, key: &Key, checker: &mut Checker<'_>);

    /// As it is written; none if it is not said.
    fn render(&self, key: &Key) -> Option<String>;
}

impl Plain<bool> for bool {
    fn take(&mut self, given: &bool, _: &Key, _: &mut Checker<'_>) {
        *self = *given;
    }

    fn render(&self, _: &Key) -> Option<String> {
        Some(self.to_string())
    }
}

impl Plain<Option<bool>> for Option<bool> {
    fn take(&mut self, given: &Option<bool>, _: &Key, _: &mut Checker<'_>) {
        *self = *given;
    }

    fn render(&self, _: &Key) -> Option<String> {
        self.map(|is_on| is_on.to_string())
    }
}

type Number = Option<Spanned<Amount>>;

fn number(given: &Number, key: &Key, checker: &mut Checker<'_>) -> Option<u64> {
    let Form::Number { unit, bounds } = &key.form else { return None };
    checker.amount(key.name, given.as_ref()?, *unit, bounds)
}

impl Plain<Number> for u64 {
    fn take(&mut self, given: &Number, key: &Key, checker: &mut Checker<'_>) {
        *self = number(given, key, checker).unwrap_or(*self);
    }

    fn render(&self, key: &Key) -> Option<String> {
        Some(match key.form {
            Form::Number { unit: Unit::Bytes, .. } => bytes(*self),
            _ => self.to_string(),
        })
    }
}

impl Plain<Number> for Option<u64> {
    fn take(&mut self, given: &Number, key: &Key, checker: &mut Checker<'_>) {
        *self = number(given, key, checker);
    }

    fn render(&self, key: &Key) -> Option<String> {
        self.and_then(|number| Plain::<Number>::render(&number, key))
    }
}

impl Plain<Number> for u8 {
    fn take(&mut self, given: &Number, key: &Key, checker: &mut Checker<'_>) {
        let judged = number(given, key, checker).and_then(|number| u8::try_from(number).ok());
        *self = judged.unwrap_or(*self);
    }

    fn render(&self, _: &Key) -> Option<String> {
        Some(self.to_string())
    }
}

/// An entry, as functions of tables and settings.
pub(super) struct Row {
    /// Its keys, in the order of documentation.
    pub(super) keys: &'static [Key],
    /// Takes what is written. The value is at its default before.
    pub(super) judge: fn(&SiteTable, &Range<usize>, &mut SiteSettings, &mut Checker<'_>),
    /// Writes it again.
    pub(super) render: fn(&SiteSettings, &mut Page),
    /// See [`SiteKey::conflict`].
    pub(super) conflict: fn(&SiteTable, &Range<usize>, &SiteSettings, &mut Checker<'_>),
    /// See [`SiteKey::between`].
    pub(super) between: fn(&[Spanned<SiteTable>], &[SiteSettings], &mut Checker<'_>),
    /// Whether two sites say the same.
    pub(super) is_alike: fn(&SiteSettings, &SiteSettings) -> bool,
}

impl Row {
    /// Whether it decides which clients are let in.
    pub(super) fn admits(&self) -> bool {
        self.keys.iter().any(|key| key.admits)
    }
}

/// A row of an entry that is `plain`, or `by` a [`SiteKey`].
macro_rules! row_of {
    (plain; $field:ident; $($written:ident $(=> $part:ident)?: $key:expr;)*) => {
        Row {
            keys: const { &[$($key.named(stringify!($written))),*] },
            judge: |given, _, site, checker| {
                $({
                    const KEY: &Key = &$key.named(stringify!($written));
                    Plain::take(&mut site.$field$(.$part)?, &given.$written, KEY, checker);
                })*
            },
            render: |site, page| {
                $({
                    const KEY: &Key = &$key.named(stringify!($written));
                    if let Some(value) = rendered(&site.$field$(.$part)?, |table| &table.$written, KEY) {
                        page.line(KEY.name, value);
                    }
                })*
            },
            conflict: |_, _, _, _| {},
            between: |_, _, _| {},
            is_alike: |one, other| one.$field == other.$field,
        }
    };
    (by $row:path; $field:ident; $($written:ident: $key:expr;)*) => {
        Row {
            keys: const { &[$($key.named(stringify!($written))),*] },
            judge: |given, at, site, checker| <$row as SiteKey>::judge(given, at, &mut site.$field, checker),
            render: |site, page| <$row as SiteKey>::render(&site.$field, page),
            conflict: <$row as SiteKey>::conflict,
            between: <$row as SiteKey>::between,
            is_alike: |one, other| one.$field == other.$field,
        }
    };
}
pub(super) use row_of;

/// A plain value as it is written. The place in the table says of which shape that is.
pub(super) fn rendered<W, V: Plain<W>>(value: &V, _: fn(&SiteTable) -> &W, key: &Key) -> Option<String> {
    value.render(key)
}

/// The structs of sites, of a list of
///
/// ```text
/// /// What it is.
/// field: its type = its default, plain or by its row {
///     key (=> part of the field, if it is a struct): its shape in the file = what the manual says of it;
/// }
/// ```
macro_rules! site_keys {
    ($(
        $(#[$what:meta])*
        $field:ident: $value:ty = $default:expr, $how:ident $($row:ident)::* {
            $($written:ident $(=> $part:ident)?: $shape:ty = $key:expr;)*
        }
    )*) => {
        /// `[[site]]`, exactly as written.
        #[derive(Debug, Default, Deserialize)]
        #[serde(deny_unknown_fields, default, expecting = "a table")]
        pub(crate) struct SiteTable {
            $($(pub(crate) $written: $shape,)*)*
        }

        /// One site: what is served for a set of host names.
        #[derive(Clone, Debug, PartialEq)]
        pub struct SiteSettings {
            $(
                $(#[$what])*
                pub $field: $value,
            )*
            /// Lines of `_headers` and `_redirects` that are not done.
            pub skipped_lines: Vec<Skipped>,
        }

        impl Default for SiteSettings {
            /// A site for any host that serves nothing.
            fn default() -> Self {
                SiteSettings { $($field: $default,)* skipped_lines: Vec::new() }
            }
        }

        /// Every row.
        pub(super) static ROWS: &[Row] = &[
            $(row_of!($how $($row)::*; $field; $($written $(=> $part)?: $key;)*),)*
        ];

        /// Every key of a site.
        pub(crate) const NAMES: &[&str] = &[$($(stringify!($written),)*)*];
    };
}
pub(super) use site_keys;
