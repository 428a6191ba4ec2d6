//! A key of a route: the parts that each has, and how everything goes through them.
//!
//! Owns: [`RouteKey`], and `route_keys!`, which makes of one list (`rows`) the table as it is written,
//! [`RouteSettings`], [`Rules`] and [`Row`] for each key. Guarantees: a row without one of its parts does not compile,
//! and [`ROWS`] has all of them.

use super::pattern::Pattern;
use super::{ROWS, RouteSettings, RouteTable, Rules};
use crate::checker::Checker;
use crate::key::Key;

/// The routes that match a request, each with its number, the most specific first.
pub(super) type Matching<'r> = [(usize, &'r RouteSettings)];

/// A mistake in a route, and what to do about it.
pub(super) type Objection = (String, Option<&'static str>);

/// The part of a row that the list says.
pub(super) trait Field {
    /// The value of one route; the default where it says nothing.
    type Said: Clone + Default + PartialEq;
    /// The value of all routes together that match a request; the default where they say nothing.
    type Rule: Default + PartialEq;
    /// The keys that it is written as: one, or several forms. None: programs that embed the server say it.
    const NAMES: &'static [&'static str];
    /// The same, with what the manual says of each.
    const KEYS: &'static [Key];

    /// The value of `route`.
    fn said(route: &RouteSettings) -> &Self::Said;
    /// The value in `rules`.
    fn rule(rules: &Rules) -> &Self::Rule;

    /// Whether `route` says anything.
    fn is_said(route: &RouteSettings) -> bool {
        *Self::said(route) != Self::Said::default()
    }

    /// The value of the most specific route that says something.
    fn first(routes: &Matching<'_>) -> Self::Said {
        let said = routes.iter().find(|(_, route)| Self::is_said(route));
        said.map(|(_, route)| Self::said(route).clone()).unwrap_or_default()
    }
}

/// The meaning of a key of a route.
pub(super) trait RouteKey: Field {
    /// Where it stands in what is not in the order of the rows.
    const ORDER: Order = Order::LAST;
    /// The kind of thing that requests are answered with by it.
    const ANSWER: Answer;
    /// The value that says that nothing is led anywhere by it, if it says where answers come from.
    const NOTHING: &'static str = "";

    /// Judges what is written. `paths` are those of the route.
    fn judge(given: &RouteTable, paths: &[Pattern], checker: &mut Checker<'_>) -> Self::Said;

    /// As it is written, if it is said.
    fn render(said: &Self::Said) -> Option<String>;

    /// The key that `said` is written as.
    fn name(_said: &Self::Said) -> Option<&'static str> {
        Self::NAMES.first().copied()
    }

    /// Merges routes.
    fn merge(routes: &Matching<'_>) -> Self::Rule;

    /// The thing that two routes say differently, as the object of a sentence.
    fn contradiction(one: &RouteSettings, two: &RouteSettings) -> Option<String> {
        let differ = Self::is_said(one) && Self::is_said(two) && Self::said(one) != Self::said(two);
        differ.then(|| format!("`{}`", Self::name(Self::said(one)).unwrap_or_default()))
    }

    /// A contradiction between it and another key of its route.
    fn conflict(_route: &RouteSettings) -> Option<Objection> {
        None
    }

    /// The rule that applies in the end, in words.
    fn report(rule: &Self::Rule) -> Vec<String>;
}

/// A key that is true or false.
pub(super) trait SwitchKey {
    /// See [`RouteKey::ORDER`].
    const ORDER: Order = Order::LAST;

    /// The value that is written.
    fn given(table: &RouteTable) -> Option<bool>;

    /// The rule that applies in the end, in words.
    fn report(is_on: bool) -> Option<String>;
}

/// It lets files be as they are.
impl<K: SwitchKey + Field<Said = Option<bool>, Rule = Option<bool>>> RouteKey for K {
    const ORDER: Order = <K as SwitchKey>::ORDER;
    const ANSWER: Answer = Answer::There;

    fn judge(given: &RouteTable, _: &[Pattern], _: &mut Checker<'_>) -> Option<bool> {
        K::given(given)
    }

    fn render(said: &Option<bool>) -> Option<String> {
        said.map(|is_on| is_on.to_string())
    }

    fn merge(routes: &Matching<'_>) -> Option<bool> {
        K::first(routes)
    }

    fn report(rule: &Option<bool>) -> Vec<String> {
        rule.and_then(<K as SwitchKey>::report).into_iter().collect()
    }
}

/// The kind of thing that requests are answered with where a route says something by a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// The file or the folder that is there, or what filters make of it.
    There,
    /// One of several files: the first that is there.
    OneOfSeveral,
    /// Something else.
    Elsewhere,
    /// Something of the program itself, whatever the route says besides.
    Program,
}

/// Where a key stands in what is not in the order of the rows: the least first, and equals in the order of the rows.
#[derive(Clone, Copy, Debug)]
pub(super) struct Order {
    /// In the table of a route.
    pub(super) shown: u8,
    /// Among what applies in the end.
    pub(super) reported: Section,
    /// Among what is wrong: of what two routes contradict each other in, the first is told.
    pub(super) judged: u8,
}

impl Order {
    /// Behind the others.
    pub(super) const LAST: Order = Order { shown: u8::MAX, reported: Section::Others, judged: u8::MAX };
    /// Beside filters, in what is told of files.
    pub(super) const OF_CONTENT: Order = Order { shown: 3, reported: Section::Content, judged: 3 };
}

/// A part of the report about what applies in the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Section {
    /// The application that answers.
    Application,
    /// From a path to a file.
    Ways,
    /// Changes of the file, and hints about it.
    Content,
    /// Pages for errors.
    Pages,
    /// Fields of files.
    Files,
    /// Fields.
    Fields,
    /// Rights of clients.
    Clients,
    /// Everything else.
    Others,
}

/// A key, as functions of routes and rules.
pub(super) struct Row {
    /// The keys that it is written as.
    pub(super) keys: &'static [Key],
    /// See [`RouteKey::ORDER`].
    pub(super) order: Order,
    /// Whether it says where answers come from. A route that says so is not sent elsewhere by less specific ones.
    pub(super) directs: bool,
    /// See [`RouteKey::NOTHING`].
    pub(super) nothing: &'static str,
    /// Whether a route says anything.
    pub(super) is_said: fn(&RouteSettings) -> bool,
    /// Whether two routes say the same.
    pub(super) is_alike: fn(&RouteSettings, &RouteSettings) -> bool,
    /// Key and value, if a route says anything that can be written.
    pub(super) render: fn(&RouteSettings) -> Option<(&'static str, String)>,
    /// See [`RouteKey::contradiction`].
    pub(super) contradiction: fn(&RouteSettings, &RouteSettings) -> Option<String>,
    /// See [`RouteKey::conflict`].
    pub(super) conflict: fn(&RouteSettings) -> Option<Objection>,
    /// See [`RouteKey::report`].
    pub(super) report: fn(&Rules) -> Vec<String>,
    /// Whether something else is answered with than the file or folder that is there, whatever there is.
    pub(super) replaces_files: fn(&Rules) -> bool,
}

impl Row {
    /// That of `K`.
    pub(super) const fn of<K: RouteKey>() -> Row {
        Row {
            keys: K::KEYS,
            order: K::ORDER,
            directs: matches!(K::ANSWER, Answer::OneOfSeveral | Answer::Elsewhere),
            nothing: K::NOTHING,
            is_said: K::is_said,
            is_alike: |one, two| K::said(one) == K::said(two),
            render: |route| K::name(K::said(route)).zip(K::render(K::said(route))),
            contradiction: K::contradiction,
            conflict: K::conflict,
            report: |rules| K::report(K::rule(rules)),
            replaces_files: |rules| {
                matches!(K::ANSWER, Answer::Elsewhere | Answer::Program) && *K::rule(rules) != K::Rule::default()
            },
        }
    }

    /// Whether it decides which clients are let in.
    pub(super) fn admits(&self) -> bool {
        self.keys.iter().any(|key| key.admits)
    }

    /// Every row, in the order that `part` says.
    pub(super) fn in_order<P: Ord>(part: fn(Order) -> P) -> Vec<&'static Row> {
        let mut rows: Vec<&Row> = ROWS.iter().collect();
        rows.sort_by_key(|row| part(row.order));
        rows
    }
}

/// The structs of routes, of a list of
///
/// ```text
/// /// What it is.
/// field: what one route says => what all come to, by its row {
///     field of the table = "key": its shape = what the manual says of it;
/// }
/// ```
macro_rules! route_keys {
    ($(
        $(#[$what:meta])*
        $field:ident: $said:ty => $rule:ty, by $row:ty {
            $($written:ident = $name:literal: $shape:ty = $key:expr;)*
        }
    )*) => {
        /// `[[site.route]]`, exactly as written.
        #[derive(Debug, Default, Deserialize)]
        #[serde(deny_unknown_fields, default, expecting = "a table")]
        pub(crate) struct RouteTable {
            #[serde(rename = "match")]
            pub(super) matches: Option<Spanned<Filled<TextsOr<MatchTable>>>>,
            pub(super) priority: Option<Spanned<i64>>,
            $($(
                #[serde(rename = $name)]
                pub(super) $written: $shape,
            )*)*
        }

        /// One route.
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        pub struct RouteSettings {
            /// Where it is written.
            pub source: Source,
            /// Routes with a greater one are looked at first.
            pub priority: i32,
            /// Paths: one of these. Empty: any.
            pub paths: Vec<Pattern>,
            /// Further conditions on the request: all of these.
            pub conditions: Vec<Condition>,
            $(
                $(#[$what])*
                pub $field: $said,
            )*
        }

        /// The rules of several routes that match a request.
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        pub struct Rules {
            /// The media type of files, in place of the one that their name tells.
            pub media_type: Option<String>,
            $(
                $(#[$what])*
                pub $field: $rule,
            )*
        }

        $(
            impl Field for $row {
                type Said = $said;
                type Rule = $rule;
                const NAMES: &'static [&'static str] = &[$($name),*];
                const KEYS: &'static [Key] = &[$($key.named($name)),*];

                fn said(route: &RouteSettings) -> &$said {
                    &route.$field
                }

                fn rule(rules: &Rules) -> &$rule {
                    &rules.$field
                }
            }
        )*

        impl RouteSettings {
            /// Judges what is written of every key. The paths are there.
            pub(super) fn judge_keys(&mut self, given: &RouteTable, checker: &mut Checker<'_>) {
                $(self.$field = <$row as RouteKey>::judge(given, &self.paths, checker);)*
            }
        }

        impl Rules {
            /// Merges routes, most specific first. Fields of files are among the others.
            pub(super) fn of(routes: &Matching<'_>) -> Rules {
                Rules { media_type: None, $($field: <$row as RouteKey>::merge(routes),)* }
            }
        }

        /// Every row.
        pub(super) static ROWS: &[Row] = &[$(Row::of::<$row>()),*];

        /// Every key of a route.
        pub(crate) const NAMES: &[&str] = &["match", "priority", $($($name,)*)*];

        /// All keys but `match` and `priority`.
        pub fn keys() -> impl Iterator<Item = &'static Key> {
            ROWS.iter().flat_map(|row| row.keys)
        }
    };
}
pub(super) use route_keys;
