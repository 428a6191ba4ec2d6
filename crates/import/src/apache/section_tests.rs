//! Sections of Apache over one another, and who is let in by all of them.

use crate::asked::Asked;
use crate::{ApacheOptions, Files, apache};

fn host(lines: &str) -> String {
    let read = |path: &str| match path {
        "/users" => Ok("ada:$apr1$abcdefgh$YJhqMYtSVAQPMkkeqmPQt1\n".to_owned()),
        "/srv/www/in/.htaccess" => Ok("<If \"%{QUERY_STRING} =~ /x/\">\nRequire all denied\n</If>\n".to_owned()),
        _ => Err("no such file".to_owned()),
    };
    let list = |pattern: &str| match pattern {
        "/srv/www/*" => vec!["/srv/www/in".to_owned()],
        _ => Vec::new(),
    };
    let text = format!(
        "<VirtualHost *:80>\nServerName a.example\nDocumentRoot /srv/www\nAlias /m/ /srv/media/\n{lines}\n</VirtualHost>\n"
    );
    let made = apache(&text, Files { read: &read, list: &list }, &ApacheOptions::default());
    made.unwrap_or_else(|note| panic!("{lines}: {note:?}")).text
}

/// Whether nobody may read at a path.
fn denied(text: &str, path: &str) -> bool {
    Asked::of(path).is_denied(text, "a.example")
}

#[test]
fn expressions_over_directories_are_for_paths_of_the_site() {
    for (expression, inside, outside) in [
        ("^/srv/www/(private|admin)", &["/private/x", "/admin/x"][..], &["/x"][..]),
        ("^/srv/www/(private|admin)$", &["/private/x", "/admin/"], &["/x"]),
        ("^/srv/media/raw/", &["/m/raw/x"], &["/x", "/raw/x"]),
        ("/\\.git", &["/.git/config", "/a/.git/config", "/m/.git/x"], &["/x"]),
        ("(^|/)\\.(git|svn)", &["/.git/config"], &["/x"]),
        // These may begin to fit within the root: nothing is open.
        ("/www/private", &["/private/x"], &[]),
        ("/(www|x)/private", &["/private/x"], &[]),
        ("^/srv/[a-z]+/private", &["/private/x"], &[]),
        ("^/srv/www/a|^/srv/www/private", &["/private/x"], &[]),
        ("private", &["/private/x"], &["/x"]),
        ("^/srv/www/?private", &["/private/x"], &[]),
        ("(?i)^/SRV/WWW/private", &["/private/x"], &[]),
    ] {
        for section in [format!("DirectoryMatch \"{expression}\""), format!("Directory ~ \"{expression}\"")] {
            let end = section.split(' ').next().unwrap();
            let text = host(&format!("<{section}>\nRequire all denied\n</{end}>"));
            for path in inside {
                assert!(denied(&text, path), "{section} {path}: {text}");
            }
            for path in outside {
                assert!(!denied(&text, path), "{section} {path}: {text}");
            }
        }
    }
}

#[test]
fn sections_within_sections_keep_clients_out() {
    for (lines, path, expected) in [
        ("<Directory /srv/www>\n<If \"%{X} == 'y'\">\nRequire all denied\n</If>\n</Directory>", "/x", true),
        ("<Location /a>\n<If \"%{X} == 'y'\">\nRequire all denied\n</If>\n</Location>", "/a/x", true),
        ("<Location /a>\n<If \"%{X} == 'y'\">\nRequire all denied\n</If>\n</Location>", "/b", false),
        ("<If \"%{X} == 'y'\">\n<Files x>\nRequire all denied\n</Files>\n</If>", "/a/x", true),
        (
            "<Location /a>\nRequire all denied\n</Location>\n<If \"%{X} == 'y'\">\n<Files x>\nRequire all granted\n</Files>\n</If>",
            "/a/x",
            true,
        ),
        (
            "<Directory /srv/www/a>\nRequire all denied\n</Directory>\n<Directory /srv/www/*/y>\n<Files x>\nRequire all granted\n</Files>\n</Directory>",
            "/a/x",
            true,
        ),
        ("<Files x.txt>\n<If \"%{X} == 'y'\">\nRequire all denied\n</If>\n</Files>", "/x.txt", true),
        (
            "<DirectoryMatch ^/srv/www/p>\n<Files s.txt>\nRequire all denied\n</Files>\n</DirectoryMatch>",
            "/p/s.txt",
            true,
        ),
        // A condition counts after all others.
        (
            "<If \"%{X} == 'y'\">\nRequire all denied\n</If>\n<Location /a>\nRequire all granted\n</Location>",
            "/a/x",
            true,
        ),
        (
            "<If \"%{X} == 'y'\">\n<Files x>\nRequire all denied\n</Files>\n</If>\n<Location /a>\nRequire all granted\n</Location>",
            "/a/x",
            true,
        ),
        ("<If \"%{X} == 'y'\">\nHeader set X y\n</If>", "/x", false),
        ("<Proxy *>\nRequire all denied\n</Proxy>", "/x", true),
        ("<Directory /srv/www>\nAllowOverride All\n</Directory>", "/in/x", true),
        ("<Directory /srv/www>\nAllowOverride All\n</Directory>", "/x", false),
    ] {
        let text = host(lines);
        assert_eq!(denied(&text, path), expected, "{lines} {path}: {text}");
    }
    for lines in [
        "<Directory /srv/www/a>\n<If \"%{X} == 'y'\">\nRewriteEngine On\nRewriteRule ^ - [F]\n</If>\n</Directory>",
        "<Directory /srv/www/a>\n<If \"%{X} == 'y'\">\nRedirect 403 /\n</If>\n</Directory>",
        "<DirectoryMatch ^/srv/www/a>\nRewriteEngine On\nRewriteRule ^ - [F]\n</DirectoryMatch>",
    ] {
        let text = host(lines);
        assert_eq!(Asked::of("/a/x").place(&text, "a.example"), "403", "{lines}: {text}");
    }
}

#[test]
fn what_a_section_leads_some_clients_away_from_is_sent_to_nobody() {
    let rule = "RewriteEngine On\nRewriteCond %{HTTP_COOKIE} !s=1\nRewriteRule ^ ";
    let without_cookie = "<If \"%{HTTP_COOKIE} !~ /s=1/\">";
    for (lines, path) in [
        (format!("<Location /a>\n{rule}/login [R=302,L]\n</Location>"), "/a/x"),
        (format!("<Location /a>\n{rule}/err.html [L]\n</Location>"), "/a/x"),
        (format!("<Location /a>\n{rule}http://127.0.0.1:9/ [P]\n</Location>"), "/a/x"),
        (format!("<LocationMatch ^/a>\n{rule}/login [R]\n</LocationMatch>"), "/a/x"),
        (format!("<Files x>\n{rule}/login [R]\n</Files>"), "/a/x"),
        (format!("<If \"true\">\n{rule}/login [R]\n</If>"), "/a/x"),
        (format!("<Directory /srv/www/a>\n<If \"-R '10.0.0.0/8'\">\n{rule}/login [R]\n</If>\n</Directory>"), "/a/x"),
        (format!("{without_cookie}\nRedirect 302 /a /login\n</If>"), "/a/x"),
        (format!("{without_cookie}\nRedirectMatch ^/a /login\n</If>"), "/a/x"),
        (format!("{without_cookie}\n<Files x>\nRedirect /login\n</Files>\n</If>"), "/a/x"),
        ("<If \"req('Cookie') == ''\">\nRedirectTemp /a /login\n</If>".to_owned(), "/a/x"),
    ] {
        let text = host(&lines);
        assert_eq!(Asked::of(path).place(&text, "a.example"), "404", "{lines}: {text}");
        let is_of_all = lines.contains("\"true\"");
        assert!(is_of_all || Asked::of("/b/y").place(&text, "a.example") != "404", "{lines}: {text}");
    }
    // These lead no client away for what it is; rules that are turned off lead nowhere.
    for lines in [
        "<If \"%{HTTP_HOST} != 'www.a.example'\">\nRedirect 301 / https://www.a.example/\n</If>".to_owned(),
        "<If \"%{HTTPS} == 'off' && %{REQUEST_URI} =~ m#^/(a|b)#\">\nRedirect 301 / https://a.example/\n</If>"
            .to_owned(),
        format!("<Location /a>\n{}/login [R]\n</Location>", rule.replace("On", "Off")),
        "<Location /a>\nRewriteEngine On\nRewriteRule ^ - [E=X:y]\n</Location>".to_owned(),
    ] {
        let text = host(&lines);
        assert_ne!(Asked::of("/a/x").place(&text, "a.example"), "404", "{lines}: {text}");
    }
}

#[test]
fn a_section_that_is_for_more_paths_lets_in_no_more_clients() {
    let users = "AuthType Basic\nAuthUserFile /users\nRequire valid-user";
    let closed = "<Directory /srv/www/a>\nRequire all denied\n</Directory>\n";
    for wider in [
        "<Directory \"/srv/www/*/public\">\nRequire ip 192.0.2.0/24\n</Directory>".to_owned(),
        format!("<If \"%{{X}} == 'y'\">\n{users}\n</If>"),
        "<If \"%{X} == 'y'\">\nRequire all granted\n</If>".to_owned(),
        "<FilesMatch \"^s\">\nRequire ip 192.0.2.0/24\n</FilesMatch>".to_owned(),
    ] {
        let text = host(&format!("{closed}{wider}"));
        assert!(denied(&text, "/a/secret") && denied(&text, "/a/b/secret"), "{wider}: {text}");
        assert!(!denied(&text, "/b/public"), "{wider}: {text}");
    }
    // Where all are let in around it, it says who is; what is around it counts as well.
    let open = "<Directory />\nRequire all denied\n</Directory>\n<Directory /srv>\nRequire all granted\n</Directory>\n";
    let text = host(&format!("{open}<FilesMatch \"^wp-login\">\nRequire ip 10.0.0.0/8\n</FilesMatch>"));
    assert!(text.contains("allow = [\"10.0.0.0/8\"]") && !denied(&text, "/wp-login.html"), "{text}");
    let text =
        host(&format!("<Directory /srv>\nRequire ip 10.0.0.0/8\n</Directory>\n<If \"%{{X}} == 'y'\">\n{users}\n</If>"));
    assert!(text.contains("{ users = [\"ada\"], allow = [\"10.0.0.0/8\"] }"), "{text}");
}

#[test]
fn what_one_module_says_stays_where_another_speaks() {
    let users = "AuthType Basic\nAuthUserFile /users\nRequire valid-user";
    let old = "Order deny,allow\nDeny from all\nAllow from 10.0.0.0/8";
    for lines in [
        format!("<Directory /srv>\n{old}\n</Directory>\n<Directory /srv/www/in>\n{users}\n</Directory>"),
        format!("<Directory /srv>\n{users}\n</Directory>\n<Directory /srv/www/in>\n{old}\n</Directory>"),
        format!("<Directory /srv/www/*/y>\n{old}\n</Directory>\n<Location /in>\n{users}\n</Location>"),
    ] {
        let text = host(&lines);
        assert!(text.contains("{ users = [\"ada\"], allow = [\"10.0.0.0/8\"] }"), "{lines}: {text}");
    }
    // What is open to all by the one is still refused by the other.
    let text = host(
        "<FilesMatch ^\\.ht>\nRequire all denied\n</FilesMatch>\n<Location /in>\nOrder allow,deny\nAllow from all\n</Location>",
    );
    assert!(denied(&text, "/in/.htpasswd") && !denied(&text, "/in/x"), "{text}");
    let text = host(&format!(
        "<Directory /srv>\n{users}\n</Directory>\n<Directory /srv/www/in>\nOrder allow,deny\nAllow from all\n</Directory>"
    ));
    assert!(!text.contains("anyone"), "{text}");
}

#[test]
fn what_is_said_for_some_methods_lets_nobody_in() {
    let closed = "<Directory /srv>\nRequire all denied\n</Directory>\n";
    for section in ["Limit GET", "LimitExcept POST"] {
        let end = section.split(' ').next().unwrap();
        let limit = format!("<{section}>\nRequire all granted\n</{end}>");
        let text = host(&format!("{closed}<Directory /srv/www/in>\n{limit}\n</Directory>"));
        assert!(denied(&text, "/in/x") && denied(&text, "/x"), "{section}: {text}");
    }
}
