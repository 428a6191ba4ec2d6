//! Fields of requests to applications that routes set, add and remove: filled in for a request, and which of the
//! client's fields go on beside them.
//!
//! Owns: [`RequestFields`], of the effective rules of a request. Guarantees: a field that is filled in has one line; of
//! the fields of a client none goes on whose name an application could take for that of a field which is set, removed,
//! added or given by default here. Knows no application and no connection.

use std::borrow::Cow;

use lamna_config::route::headers::HeaderRule;
use lamna_config::route::matcher::RouteId;
use lamna_config::route::request_fields::RequestRules;
use lamna_config::route::template::{Captures, Template, Variable};
use lamna_config::settings::SiteSettings;
use lamna_proto::gateway::fields::Fields;
use lamna_proto::gateway::forwarding::{is_odd, spells};

/// See the module.
#[derive(Debug, Default)]
pub struct RequestFields {
    /// The least specific first.
    rules: Vec<Rule>,
    /// The names of all fields in the rules, in lower case, each with whether the client's own field goes.
    names: Vec<(String, bool)>,
    /// Those of them that may have other values for two requests for the same target.
    of_client: Vec<String>,
    /// See [`RequestFields::tell_of_one_client`].
    of_one_client: bool,
}

#[derive(Debug)]
struct Rule {
    remove: Vec<String>,
    set: Vec<(String, Vec<Template>)>,
    default: Vec<(String, Vec<Template>)>,
    add: Vec<(String, Template)>,
    /// The route whose captures its values have.
    from: RouteId,
}

/// The facts that values are filled in with, beside captures.
pub struct Filling<'a> {
    /// The normalised path.
    pub path: &'a [u8],
    /// The host that is asked, without a port; empty if there is none.
    pub host: &'a [u8],
    /// The fields of the request.
    pub fields: Fields<'a>,
    /// The values of the other variables, and of the field `Host`.
    pub variable: &'a dyn Fn(&Variable) -> Option<Cow<'a, [u8]>>,
    /// Whether the application is sent a field of this name that the client has sent.
    pub goes_on: &'a dyn Fn(&str) -> bool,
    /// Whether the server writes the field of this name itself for what it does with the answer.
    pub is_written: &'a dyn Fn(&str) -> bool,
}

impl RequestFields {
    /// Those of `rules`, which were judged.
    pub(super) fn new(rules: &RequestRules) -> RequestFields {
        let (mut names, mut of_client) = (Vec::<(String, bool)>::new(), Vec::new());
        let mut note = |name: &str, goes: bool| {
            let lower = name.to_ascii_lowercase();
            match names.iter_mut().find(|(other, _)| *other == lower) {
                Some((_, known)) => *known |= goes,
                None => names.push((lower, goes)),
            }
        };
        for (HeaderRule { set, add, remove, default, keep: _, statuses: _ }, _) in rules {
            set.iter().for_each(|(name, _)| note(name, true));
            remove.iter().for_each(|name| note(name, true));
            add.iter().for_each(|(name, _)| note(name, false));
            default.iter().for_each(|(name, _)| note(name, false));
        }
        let rules: Vec<Rule> = rules.iter().map(|(rule, from)| Rule::of(rule, *from)).collect();
        for (name, template) in rules.iter().flat_map(Rule::values) {
            if template.tells_of_client() {
                of_client.push(name.to_ascii_lowercase());
            }
        }
        let is_identity = |template: &Template| template.variables().any(Variable::is_identity);
        let tells_identity = rules.iter().flat_map(Rule::values).any(|(_, template)| is_identity(template));
        let is_credential = |name: &String| matches!(name.as_str(), "authorization" | "cookie" | "host");
        let of_one_client = tells_identity || of_client.iter().any(is_credential);
        RequestFields { rules, names, of_client, of_one_client }
    }

    /// Whether nothing is said.
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// The names of the fields, in lower case.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.names.iter().map(|(name, _)| &**name)
    }

    /// Whether a field of the client goes on.
    pub fn let_on(&self, name: &[u8]) -> bool {
        !self.names.iter().any(|(own, goes)| (*goes || is_odd(name)) && spells(name, own))
    }

    /// Whether a field of this name is said here, and the client's own does not go on.
    pub fn replace(&self, name: &[u8]) -> bool {
        self.names.iter().any(|(own, goes)| *goes && spells(name, own))
    }

    /// Whether what an application gets in this field may be something else for another client that asks for the same.
    pub fn tell_of_client(&self, name: &[u8]) -> bool {
        self.of_client.iter().any(|own| name.eq_ignore_ascii_case(own.as_bytes()))
    }

    /// Whether answers are for the one client that asks, unless they say otherwise: a value says what the server has
    /// verified of it, or is its credentials, its cookies or its host, made of another field that it sends.
    pub fn tell_of_one_client(&self) -> bool {
        self.of_one_client
    }

    /// Appends the fields as lines. `captures` are those of a route in the path.
    pub fn write(&self, with: &Filling<'_>, captures: impl Fn(RouteId) -> Captures, out: &mut Vec<u8>) {
        let mut said: Vec<(&str, Vec<u8>)> = Vec::new();
        for rule in &self.rules {
            let captures = rule.values().next().map(|_| captures(rule.from)).unwrap_or_default();
            let fill = |template: &Template| {
                template.fill_field(with.path, with.host, &captures, |variable| match variable {
                    // That was judged, and may be in the target.
                    Variable::Field(name) if name != "host" => field(with.fields, name),
                    _ => (with.variable)(variable),
                })
            };
            let is_said = |said: &[(&str, _)], name: &str| said.iter().any(|(one, _)| one.eq_ignore_ascii_case(name));
            let replaced = rule.remove.iter().chain(rule.set.iter().map(|(name, _)| name));
            replaced.for_each(|name| said.retain(|(one, _)| !one.eq_ignore_ascii_case(name)));
            for (name, templates) in &rule.set {
                said.extend(templates.iter().filter_map(fill).map(|value| (&**name, value)));
            }
            for (name, templates) in &rule.default {
                let is_from_client = self.let_on(name.as_bytes()) && (with.goes_on)(name);
                if !is_from_client && !is_said(&said, name) {
                    said.extend(templates.iter().filter_map(fill).map(|value| (&**name, value)));
                }
            }
            said.extend(rule.add.iter().filter_map(|(name, template)| Some((&**name, fill(template)?))));
        }
        for (name, value) in said.into_iter().filter(|(name, _)| !(with.is_written)(name)) {
            [name.as_bytes(), b": ", &value, b"\r\n"].iter().for_each(|part| out.extend_from_slice(part));
        }
    }
}

impl Rule {
    fn of(rule: &HeaderRule, from: usize) -> Rule {
        // What is no template was refused with the settings.
        let template = |text: &String| Template::of_field(text).unwrap_or_else(|_| Template::literal(text));
        let all = |fields: &[(String, Vec<String>)]| {
            let one = |(name, values): &(String, Vec<String>)| (name.clone(), values.iter().map(template).collect());
            fields.iter().map(one).collect()
        };
        Rule {
            remove: rule.remove.clone(),
            set: all(&rule.set),
            default: all(&rule.default),
            add: rule.add.iter().map(|(name, value)| (name.clone(), template(value))).collect(),
            from: from as RouteId, // It is from `merge`, which was given one.
        }
    }

    fn values(&self) -> impl Iterator<Item = (&str, &Template)> {
        let several = self.set.iter().chain(&self.default);
        let several = several.flat_map(|(name, values)| values.iter().map(move |value| (&**name, value)));
        several.chain(self.add.iter().map(|(name, value)| (&**name, value)))
    }
}

/// All values of a field, as one.
fn field<'a>(fields: Fields<'a>, name: &str) -> Option<Cow<'a, [u8]>> {
    let mut values = fields.values(name);
    let first = values.next()?;
    let separator: &[u8] = if name == "cookie" { b"; " } else { b", " };
    Some(values.fold(Cow::Borrowed(first), |joined, more| Cow::Owned([&joined, separator, more].concat())))
}

/// The names of fields of requests in which some route of `site` says what the server has verified of a client: no
/// client says them, on whatever route.
pub(super) fn names_of_identity(site: &SiteSettings) -> impl Iterator<Item = String> {
    let rules = site.routes.iter().flat_map(|route| &route.request_headers);
    let names = |rule: &HeaderRule| {
        let rule = Rule::of(rule, 0);
        let is_of_identity = |(_, template): &(&str, &Template)| template.variables().any(Variable::is_identity);
        rule.values().filter(is_of_identity).map(|(name, _)| name.to_ascii_lowercase()).collect::<Vec<_>>()
    };
    rules.flat_map(names)
}
