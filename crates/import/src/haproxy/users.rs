//! Lists of users of HAProxy.
//!
//! Owns: names and hashes of passwords, and groups. Guarantees: a user whose password cannot be checked here is not
//! among those who are let in.

use lamna_config::access::check_user;

use super::Section;
use super::syntax::Line;
use crate::{Draft, Site};

/// All lists.
#[derive(Debug, Default)]
pub(super) struct Lists(Vec<List>);

#[derive(Debug)]
struct List {
    name: String,
    /// Name, hash, and groups.
    users: Vec<(String, String, Vec<String>)>,
}

impl Lists {
    pub(super) fn of(sections: &[Section<'_>], draft: &mut Draft) -> Lists {
        let mut lists = Lists::default();
        for section in sections.iter().filter(|section| section.line.word(0) == "userlist") {
            let mut users: Vec<(String, String, Vec<String>)> = Vec::new();
            for line in section.own {
                let after = |word: &str| line.words.iter().position(|one| one == word).map(|at| line.word(at + 1));
                let names = |text: Option<&str>| {
                    text.map_or(Vec::new(), |text| text.split(',').map(str::to_owned).collect::<Vec<_>>())
                };
                if line.word(0) == "user" {
                    let name = line.word(1);
                    let why = match (after("password"), after("insecure-password")) {
                        (Some(hash), _) => match check_user(name, hash) {
                            Ok(_) => {
                                users.push((name.to_owned(), hash.to_owned(), names(after("groups"))));
                                continue;
                            }
                            Err(why) => why,
                        },
                        _ => "has a password that is written out".to_owned(),
                    };
                    let make =
                        "make a hash with `lamna hash-password`, and name it in `users` and `access` (docs/access.md)";
                    // The line is not repeated: it may have the password.
                    draft.lose(line.line, format!("the user `{}` {why}: {make}", name.escape_debug()));
                }
            }
            // Groups may stand before the users that they name.
            for line in section.own.iter().filter(|line| line.word(0) == "group") {
                let members = line.words.iter().position(|one| one == "users").map_or("", |at| line.word(at + 1));
                for (name, _, groups) in &mut users {
                    if members.split(',').any(|one| one == name) && !groups.iter().any(|one| one == line.word(1)) {
                        groups.push(line.word(1).to_owned());
                    }
                }
            }
            lists.0.push(List { name: section.name().to_owned(), users });
        }
        lists
    }

    /// The value of `access` for the users of a list, whom the site knows then.
    pub(super) fn access(&self, name: &str, groups: &[String], site: &mut Site) -> String {
        let Some(list) = self.0.iter().find(|list| list.name == name) else { return "\"deny\"".to_owned() };
        let mut names = Vec::new();
        for (user, hash, of) in &list.users {
            if !groups.is_empty() && !of.iter().any(|group| groups.contains(group)) {
                continue;
            }
            match site.users.iter().find(|(other, _)| other == user) {
                None => site.users.push((user.clone(), hash.clone())),
                Some((_, other)) if other == hash => {}
                // The same name with another password in another list: only one of them is known here.
                Some(_) => continue,
            }
            names.push(user.clone());
        }
        if names.is_empty() { "\"deny\"".to_owned() } else { format!("{{ users = {} }}", crate::list(&names)) }
    }
}

/// Leaves passwords that are written out, out of all that is said.
pub(super) fn forget_passwords(sections: &mut [Line]) {
    for line in sections.iter_mut().flat_map(|section| section.inner.iter_mut().flatten()) {
        let at = line.words.iter().position(|word| word == "insecure-password");
        if let Some(password) = at.and_then(|at| line.words.get_mut(at + 1)) {
            "...".clone_into(password);
        }
    }
}
