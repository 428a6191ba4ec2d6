//! `access_log` and `log_format`.
//!
//! Owns: which log a block has and in which format, as far as it can be said here. A site has one log; a location has
//! that of its site, or none.

use lamna_config::access_log::LogFormat;
use lamna_config::render::quoted;

use super::syntax::Directive;
use super::{Draft, of_standard};
use crate::Site;

/// The log of a block, which it says itself or has from the blocks around it.
#[derive(Clone, Debug, Default)]
pub(super) struct Log {
    /// The formats with names; none of those that cannot be said here.
    formats: Vec<(String, Option<String>)>,
    log: Option<Said>,
    /// This block has said it.
    is_own: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Said {
    line: usize,
    text: String,
    /// `off`, or a place.
    target: String,
    format: String,
}

const USUAL: &str = "combined";

impl Log {
    /// That of a block within this one.
    pub(super) fn within(&self) -> Log {
        Log { is_own: false, ..self.clone() }
    }

    /// Takes a directive over. False if it is about something else.
    pub(super) fn take(&mut self, directive: &Directive, draft: &mut Draft) -> bool {
        match &*directive.name {
            "log_format" => self.formats.push((directive.argument(0).to_owned(), format(directive, draft))),
            "access_log" => self.access_log(directive, draft),
            _ => return false,
        }
        true
    }

    fn access_log(&mut self, directive: &Directive, draft: &mut Draft) {
        let lose = |draft: &mut Draft, why: &str| draft.lose(directive.line, format!("`{}`: {why}", directive.text()));
        let path = directive.argument(0);
        if path.contains('$') || path.starts_with("syslog:") {
            return lose(draft, "only a file can be written to");
        }
        if self.is_own {
            return lose(draft, "a request is in one log");
        }
        let (options, names): (Vec<&String>, Vec<&String>) =
            directive.arguments.iter().skip(1).partition(|one| one.contains('=') || *one == "gzip");
        for option in options {
            match option.split('=').next() {
                Some("if") => lose(draft, "every request is logged, whatever the condition"),
                Some("gzip") => lose(draft, "lines are not compressed"),
                _ => {}
            }
        }
        let format = match names.first().map(|name| name.as_str()) {
            None | Some(USUAL) => USUAL.to_owned(),
            Some(name) => match self.formats.iter().rev().find(|(other, _)| other == name) {
                Some((_, Some(format))) => format.clone(),
                _ => {
                    lose(draft, "its format cannot be said here: lines are in the combined format");
                    USUAL.to_owned()
                }
            },
        };
        let target = if path == "off" { "off".to_owned() } else { of_standard(path).to_owned() };
        self.log = Some(Said { line: directive.line, text: directive.text(), target, format });
        self.is_own = true;
    }

    /// Writes it for all sites.
    pub(super) fn of_server(&self, draft: &mut Draft) {
        let Some(said) = self.log.as_ref().filter(|_| self.is_own) else { return };
        draft.log = Some(said.target.clone());
        if said.format != USUAL {
            draft.key("log_format", quoted(&said.format));
        }
    }

    /// Writes it for a site, in a server around which `outer` is said.
    pub(super) fn of_site(&self, outer: &Log, site: &mut Site) {
        let Some(said) = self.log.as_ref().filter(|_| self.is_own) else { return };
        let around = outer.log.as_ref();
        if around.map(|around| &around.target) != Some(&said.target) {
            site.keys.push(("log", quoted(&said.target)));
        }
        if said.target != "off" && around.map_or(USUAL, |around| &around.format) != said.format {
            site.keys.push(("log_format", quoted(&said.format)));
        }
    }

    fn is_off(&self) -> bool {
        self.log.as_ref().is_some_and(|said| said.target == "off")
    }

    /// The key of a location in a site with the log `of_site`, where `others` say what those beside it have.
    pub(super) fn of_location<'l>(
        &self,
        of_site: &Log,
        mut others: impl Iterator<Item = &'l Log>,
        draft: &mut Draft,
    ) -> Option<(&'static str, String)> {
        if of_site.is_off() {
            if let Some(said) = self.log.as_ref().filter(|_| self.is_own && !self.is_off()) {
                draft.lose(said.line, format!("`{}`: its site has no log, and a location names no file", said.text));
            }
            return None;
        }
        let place = |log: &Log| log.log.as_ref().map(|said| (said.target.clone(), said.format.clone()));
        if let Some(said) = self.log.as_ref().filter(|_| !self.is_off() && place(self) != place(of_site)) {
            let why = "a location names no file: its requests are in the log of the site";
            draft.lose(said.line, format!("`{}`: {why}", said.text));
        }
        // A location counts by itself there, and with those that it lies in here.
        match self.is_off() {
            true => Some(("log", quoted("off"))),
            false => others.any(Log::is_off).then(|| ("log", quoted("on"))),
        }
    }
}

/// The template of a `log_format`; none if it cannot be said here, which is noted.
fn format(directive: &Directive, draft: &mut Draft) -> Option<String> {
    let words: Vec<&str> = directive.arguments.iter().skip(1).map(String::as_str).collect();
    let (escapes, texts): (Vec<&str>, Vec<&str>) = words.iter().partition(|word| word.starts_with("escape="));
    let text = texts.concat();
    let why = match LogFormat::from_text(&text) {
        Err(why) => format!("it {why}"),
        Ok(_) if escapes.contains(&"escape=json") && !text.starts_with('{') => {
            "values are escaped as in JSON only where the format begins with `{`".to_owned()
        }
        Ok(_) => return Some(text),
    };
    draft.lose(directive.line, format!("`log_format {}`: {why}", directive.argument(0)));
    None
}

#[cfg(test)]
mod tests {
    use crate::{Files, nginx};

    const FILES: Files<'static> = Files { read: &|_| Err(String::new()), list: &|_| Vec::new() };

    /// The configuration, and what was lost.
    fn of(text: &str) -> (String, String) {
        let imported = nginx(text, FILES).expect("it is one");
        let lost: Vec<String> = imported.lost.into_iter().map(|note| note.words).collect();
        (imported.text, lost.join("\n"))
    }

    const MAIN: &str = r#"log_format main '$remote_addr - $remote_user [$time_local] "$request" '
        '$status $body_bytes_sent "$http_referer" "$http_x_forwarded_for"';"#;

    #[test]
    fn each_server_has_its_log_and_a_location_has_none() {
        let text = format!(
            "http {{ {MAIN} access_log /var/log/all.log main;
             server {{ server_name a.example; listen 80; root /w; location /quiet/ {{ access_log off; }} location /quiet/not/ {{ }} }}
             server {{ server_name b.example; listen 80; root /w; access_log /var/log/b.log; }}
             server {{ server_name c.example; listen 80; root /w; access_log off; }} }}"
        );
        let (sites, lost) = of(&text);
        for part in [
            "log = \"/var/log/all.log\"",
            "log_format = \"$remote_addr - $remote_user [$time_local] \\\"$request\\\" $status",
            "match = \"/quiet/*\"\nlog = \"off\"",
            "match = \"/quiet/not/*\"\nlog = \"on\"",
            "log = \"/var/log/b.log\"\nlog_format = \"combined\"",
            "log = \"off\"",
        ] {
            assert!(sites.contains(part), "{part}: {sites}");
        }
        assert_eq!(lost, "");
    }

    #[test]
    fn what_cannot_be_said_of_a_log_is_noted() {
        for (log, why) in [
            ("access_log syslog:server=a;", "only a file"),
            ("access_log /a.log; access_log /b.log;", "a request is in one log"),
            ("access_log /a.log combined if=$a;", "whatever the condition"),
            ("log_format x '$upstream_addr'; access_log /a.log x;", "unknown variable `$upstream_addr`"),
            ("log_format x escape=json '$status'; access_log /a.log x;", "only where the format begins"),
            ("location /a/ { access_log /b.log; }", "a location names no file"),
            ("access_log off; location /a/ { access_log /b.log; }", "its site has no log"),
        ] {
            let (sites, lost) = of(&format!("http {{ server {{ listen 80; root /w; {log} }} }}"));
            assert!(lost.contains(why), "{log}: {lost}\n{sites}");
        }
    }
}
