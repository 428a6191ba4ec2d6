//! Configurations of Apache as they are written, and what comes of them.

use crate::asked::Asked;
use crate::{ApacheOptions, Files, Imported, Note, apache};

const PHP: &str = "unix:/run/php.sock";

fn import(text: &str, options: &ApacheOptions) -> Result<Imported, Note> {
    let read = |path: &str| match path {
        "/etc/apache2/users" => Ok("ada:$apr1$abcdefgh$YJhqMYtSVAQPMkkeqmPQt1\neve:plain\n".to_owned()),
        "/etc/apache2/more.conf" => Ok("Redirect /inc /x.html\n".to_owned()),
        "/srv/www/.htaccess" => Ok("Redirect gone /old\n".to_owned()),
        "/srv/www/private/.htaccess" => Ok("Require all denied\n".to_owned()),
        "/srv/www/named/.acl" => Ok("Require all denied\n".to_owned()),
        _ => Err("no such file".to_owned()),
    };
    let list = |pattern: &str| match pattern {
        "/srv/www/*" => ["index.html", "private", "named"].map(|name| format!("/srv/www/{name}")).to_vec(),
        _ => Vec::new(),
    };
    apache(text, Files { read: &read, list: &list }, options)
}

fn host(lines: &str) -> String {
    let text = format!("<VirtualHost *:80>\nServerName a.example\nDocumentRoot /srv/www\n{lines}\n</VirtualHost>\n");
    import(&text, &ApacheOptions::default()).unwrap_or_else(|note| panic!("{lines}: {note:?}")).text
}

/// The result of a `.htaccess`, with php-fpm.
fn folder(lines: &str) -> String {
    let options = ApacheOptions { folder: Some("/srv/www".into()), php: Some(PHP.into()) };
    import(lines, &options).unwrap_or_else(|note| panic!("{lines}: {note:?}")).text
}

fn place(text: &str, path: &str) -> String {
    Asked::of(path).place(text, "a.example")
}

fn answer(text: &str, path: &str) -> String {
    Asked::of(path).answer(text, "a.example")
}

#[test]
fn a_usual_host_is_carried_over() {
    let text = host(
        "ServerAlias www.a.example *.b.example\nDirectoryIndex index.html home.html\nErrorDocument 404 /404.html\nAlias /media /srv/media\n\
         ScriptAlias /cgi-bin/ /usr/lib/cgi-bin/\n<Directory /srv/www>\nOptions Indexes FollowSymLinks\nAllowOverride None\nRequire all granted\n\
         </Directory>\nProxyPreserveHost On\nProxyPass /api http://127.0.0.1:3000/api\nProxyPass /app/ http://127.0.0.1:4000/\nProxyPassReverse /app/ http://127.0.0.1:4000/\n\
         Header always set X-Frame-Options DENY\nExpiresActive On\nExpiresByType image/png \"access plus 1 month\"\nAddType application/x-y .y\n\
         Redirect permanent /old https://b.example/new\nCustomLog /var/log/a.log combined",
    );
    for expected in [
        "hosts = [\"a.example\", \"www.a.example\", \"*.b.example\"]",
        "root = \"/srv/www\"",
        "browse = true",
        "index = [\"index.html\", \"home.html\"]",
        "error_pages = { \"404\" = \"/404.html\" }",
        "prefix = \"/media/\"",
        "cgi = true",
        "strip_prefix = \"/app\"",
        "restore_prefix = true",
        "set = { \"X-Frame-Options\" = \"DENY\" }",
        "Cache-Control = \"max-age=2592000\"",
        "Content-Type = \"application/x-y\"",
        "log = \"/var/log/a.log\"",
    ] {
        assert!(text.contains(expected), "{expected}: {text}");
    }
    for (path, expected) in [
        ("/api/x", "127.0.0.1:3000"),
        ("/apix", "nothing"),
        ("/app/x", "127.0.0.1:4000"),
        ("/old/x", "to https://b.example/new/$1"),
        ("/old", "to https://b.example/new"),
    ] {
        assert_eq!(place(&text, path), expected, "{path} {text}");
    }
    assert!(!text.contains("access ="), "{text}");
}

#[test]
fn a_front_controller_is_tried_where_nothing_is() {
    for lines in [
        "RewriteEngine On\nRewriteBase /\nRewriteRule ^index\\.php$ - [L]\nRewriteCond %{REQUEST_FILENAME} !-f\nRewriteCond %{REQUEST_FILENAME} !-d\nRewriteRule . /index.php [L]",
        "RewriteEngine On\nRewriteCond %{REQUEST_FILENAME} !-d\nRewriteCond %{REQUEST_FILENAME} !-f\nRewriteRule ^ index.php [L]",
        "RewriteEngine On\nRewriteCond %{REQUEST_FILENAME} -f [OR]\nRewriteCond %{REQUEST_FILENAME} -d\nRewriteRule ^ - [L]\nRewriteRule ^ index.php [L]",
        "RewriteEngine On\nRewriteCond %{REQUEST_FILENAME} !-f\nRewriteRule ^(.*)$ index.php [QSA,L]",
    ] {
        let text = folder(lines);
        assert!(text.contains("try = [\"$path\", \"/index.php\"]"), "{lines}: {text}");
        assert!(text.contains("fastcgi = { to = \"unix:/run/php.sock\", index = [] }"), "{lines}: {text}");
    }
    let text = folder(
        "DirectoryIndex index.php index.html\nRewriteEngine On\nRewriteCond %{REQUEST_FILENAME} !-f\nRewriteRule ^(.*)$ /index.html [L]",
    );
    assert!(text.contains("\"/index.html\"") && text.contains("fastcgi = \"unix:/run/php.sock\""), "{text}");
}

#[test]
fn who_adds_a_slash_is_led_away_before_a_script_is_looked_for() {
    // As Laravel has it.
    let text = folder(
        "RewriteEngine On\nRewriteCond %{REQUEST_FILENAME} !-d\nRewriteRule ^(.*)/$ /$1 [L,R=301]\n\
         RewriteCond %{REQUEST_FILENAME} !-d\nRewriteCond %{REQUEST_FILENAME} !-f\nRewriteRule ^ index.php [L]",
    );
    assert!(text.contains("if_missing = true }\ntry = [\"$path\"]"), "{text}");
    assert_eq!(answer(&text, "/a"), "file $path /index.php", "{text}");
}

#[test]
fn no_script_is_sent() {
    // Without an application that runs them.
    for lines in [
        "",
        "DirectoryIndex index.php",
        "RewriteEngine On\nRewriteCond %{REQUEST_FILENAME} !-f\nRewriteRule ^ index.php [L]",
    ] {
        let text = host(&format!("<Directory /srv/www>\n{lines}\n</Directory>"));
        for path in ["/x.php", "/sub/index.php", "/x.PHP", "/x.php/info", "/x.phtml", "/x.php5"] {
            assert_eq!(answer(&text, path), "nothing", "{lines} {path} {text}");
        }
        assert!(!text.contains("index.php\"]"), "{text}");
    }
    let text = host("<FilesMatch \\.php$>\nSetHandler \"proxy:unix:/run/fpm.sock|fcgi://localhost\"\n</FilesMatch>");
    assert!(text.contains("fastcgi = { to = \"unix:/run/fpm.sock\", index = [] }"), "{text}");
    let text = host("ProxyPassMatch ^/(.*\\.php)$ fcgi://127.0.0.1:9000/srv/www/$1");
    assert!(text.contains("to = \"127.0.0.1:9000\""), "{text}");
}

#[test]
fn who_is_let_in_is_let_in_here_and_nobody_else() {
    for (lines, expected) in [
        ("Require all denied", "access = \"deny\""),
        ("Require ip 10.0.0.0/8 192.168", "access = { allow = [\"10.0.0.0/8\", \"192.168.0.0/16\"] }"),
        ("Require host example.org", "access = \"deny\""),
        ("Order deny,allow\nDeny from all\nAllow from 10.1.", "access = { allow = [\"10.1.0.0/16\"] }"),
        ("Order allow,deny\nAllow from all\nDeny from 10.1.2.3", "access = { deny = [\"10.1.2.3\"] }"),
        ("Order allow,deny\nAllow from all\nDeny from env=bad", "access = \"deny\""),
        ("Order deny,allow\nDeny from all", "access = \"deny\""),
        ("AuthType Basic\nAuthUserFile /etc/apache2/users\nRequire valid-user", "access = { users = [\"ada\"] }"),
        ("AuthType Basic\nAuthUserFile /gone\nRequire valid-user", "access = \"deny\""),
        ("AuthType Digest\nAuthUserFile /etc/apache2/users\nRequire valid-user", "access = \"deny\""),
        ("AuthType Basic\nAuthUserFile /etc/apache2/users\nRequire user eve", "access = \"deny\""),
        (
            "<RequireAll>\nRequire all granted\nRequire not ip 10.0.0.1\n</RequireAll>",
            "access = { deny = [\"10.0.0.1\"] }",
        ),
        ("<RequireAll>\nRequire all granted\nRequire not env x\n</RequireAll>", "access = \"deny\""),
        ("<RequireNone>\nRequire ip 10.0.0.1\n</RequireNone>", "access = { deny = [\"10.0.0.1\"] }"),
        ("<Limit GET POST>\nOrder deny,allow\nDeny from all\n</Limit>", "access = \"deny\""),
        ("<If \"%{HTTP_USER_AGENT} == 'x'\">\nRequire all denied\n</If>", "access = \"deny\""),
    ] {
        let text = folder(lines);
        assert!(text.contains(expected), "{lines}: {text}");
    }
    let text = folder("AuthType Basic\nAuthUserFile /etc/apache2/users\nRequire valid-user\nRequire ip 10.0.0.0/8");
    assert!(text.contains("match = { client = [\"10.0.0.0/8\"] }") && text.contains("access = \"anyone\""), "{text}");
    assert!(text.contains("users = [\"ada\"]"), "{text}");
}

#[test]
fn sections_are_for_their_paths_and_the_later_one_counts() {
    for (lines, path, expected) in [
        ("<Directory /srv/www/in>\nRequire all denied\n</Directory>", "/in/", true),
        ("<Directory /srv/www/in>\nRequire all denied\n</Directory>", "/inn", false),
        (
            "<Directory />\nRequire all denied\n</Directory>\n<Directory /srv/www>\nRequire all granted\n</Directory>",
            "/a",
            false,
        ),
        ("<Directory />\nRequire all denied\n</Directory>", "/a", true),
        ("<Files .env>\nRequire all denied\n</Files>", "/sub/.env", true),
        ("<FilesMatch \"^\\.ht\">\nRequire all denied\n</FilesMatch>", "/a/.htpasswd", true),
        ("<FilesMatch \"(^#.*#|\\.(bak|sql)|~)$\">\nRequire all denied\n</FilesMatch>", "/x.sql", true),
        ("<FilesMatch \"(^#.*#|\\.(bak|sql)|~)$\">\nRequire all denied\n</FilesMatch>", "/x.html", false),
        ("<Location /admin>\nRequire all denied\n</Location>", "/admin", true),
        ("<LocationMatch ^/a[0-9]>\nRequire all denied\n</LocationMatch>", "/a1/x", true),
        (
            "<Location /in>\nRequire all granted\n</Location>\n<Directory /srv/www/in>\nRequire all denied\n</Directory>",
            "/in/x",
            false,
        ),
        ("<Directory /srv/www/*/in>\nRequire all denied\n</Directory>", "/x/in/a", true),
    ] {
        let text = host(lines);
        assert_eq!(denied(&text, path), expected, "{lines} {path}: {text}");
    }
    let text = host("<Directory /srv/www>\nAllowOverride All\nRequire all granted\n</Directory>");
    assert!(denied(&text, "/private/x") && !denied(&text, "/x"), "{text}");
    assert_eq!(place(&text, "/old"), "410", "{text}");
}

/// Whether nobody may read at a path.
fn denied(text: &str, path: &str) -> bool {
    Asked::of(path).is_denied(text, "a.example")
}

#[test]
fn what_a_folder_says_itself_counts_behind_what_is_said_of_it() {
    let granted = |folder: &str| format!("<Directory {folder}>\nAllowOverride All\nRequire all granted\n</Directory>");
    for lines in [granted("/srv/www"), granted("/srv/www/private"), granted("/srv/www/private/")] {
        let text = host(&lines);
        assert!(denied(&text, "/private/x") && !denied(&text, "/x"), "{lines}: {text}");
    }
    // Their name may be another one.
    let text = host(&format!("AccessFileName .other .acl\n{}", granted("/srv/www")));
    assert!(denied(&text, "/named/x") && !denied(&text, "/private/x"), "{text}");
    // Those beneath one that is imported alone count as well.
    let text = folder("Options -Indexes");
    assert!(denied(&text, "/private/x") && !denied(&text, "/x"), "{text}");
    // What is said of a folder beneath it comes behind it, and so do names of files.
    let text = host(&format!("{}\n{}", granted("/srv/www"), granted("/srv/www/private/open")));
    assert!(denied(&text, "/private/x") && !denied(&text, "/private/open/x"), "{text}");
}

#[test]
fn rules_refuse_and_lead_elsewhere() {
    for (lines, path, fields, expected) in [
        ("RewriteRule ^secret - [F]", "/secret/x", "", "403"),
        ("RewriteRule ^old$ - [G]", "/old", "", "410"),
        ("RewriteRule (^|/)\\.git - [F,L]", "/x/.git/config", "", "403"),
        ("RewriteCond %{HTTP_USER_AGENT} (bad|evil) [NC]\nRewriteRule .* - [F,L]", "/", "User-Agent: Evil\r\n", "403"),
        (
            "RewriteCond %{HTTP_USER_AGENT} (bad|evil) [NC]\nRewriteRule .* - [F,L]",
            "/",
            "User-Agent: x\r\n",
            "unix:/run/php.sock",
        ),
        ("RewriteCond %{QUERY_STRING} union.*select [NC]\nRewriteRule ^ - [F]", "/", "", "403"),
        ("RewriteCond %{REMOTE_ADDR} !^10\\.0\\.\nRewriteRule ^in - [F]", "/in", "", "403"),
        ("RewriteRule ^a/(.*)$ /b/$1 [R=301,L]", "/a/x", "", "to /b/$1"),
        (
            "RewriteCond %{HTTP_HOST} ^a\\.example$ [NC]\nRewriteRule ^(.*)$ https://www.a.example/$1 [R=301,L]",
            "/x",
            "",
            "to https://www.a.example$path",
        ),
        (
            "RewriteCond %{HTTP_HOST} !^a\\.example$ [NC]\nRewriteRule ^(.*)$ https://www.a.example/$1 [R=301,L]",
            "/x",
            "",
            "unix:/run/php.sock",
        ),
        ("RewriteCond %{REQUEST_URI} !^/(pub|img)/\nRewriteRule ^ - [F]", "/pub/x", "", "unix:/run/php.sock"),
        ("RewriteCond %{REQUEST_URI} !^/(pub|img)/\nRewriteRule ^ - [F]", "/x", "", "403"),
        ("RewriteRule ^pub/ - [L]\nRewriteRule ^ - [F]", "/pub/x", "", "unix:/run/php.sock"),
        ("RewriteRule ^user/([0-9]+)$ user.php?id=$1 [L]", "/user/12", "", "404"),
        // The rules of a folder are carried out for what they lead to as well.
        (
            "RewriteRule ^a/(.*)$ /b/$1 [L]\nRewriteCond %{HTTP_USER_AGENT} evil\nRewriteRule ^ - [F]",
            "/a/x",
            "User-Agent: evil\r\n",
            "403",
        ),
        // What begins within an expression begins behind the folder.
        ("RewriteRule (^|/)secret - [F]", "/secret.txt", "", "403"),
        ("RewriteRule (?:^|/)secret\\.txt$ - [F]", "/a/secret.txt", "", "403"),
        ("RewriteRule ^secret|^admin - [F]", "/admin/x", "", "403"),
        ("RewriteRule ^secret|^admin - [F]", "/x/admin", "", "unix:/run/php.sock"),
        ("RewriteRule (?i)^SECRET - [F]", "/secret", "", "403"),
        ("RewriteRule (^old|^older)/(.*)$ /new/$2 [R]", "/older/x", "", "to /new/$2"),
        // Who is led away from where a rule leads is not let in by that.
        (
            "RewriteRule ^go/(.*) /admin/$1\nRewriteCond %{HTTP_COOKIE} !s=1\nRewriteRule ^admin /login [R]",
            "/go/x",
            "",
            "404",
        ),
        ("RewriteRule ^admin /login [R]\nRewriteRule ^go/(.*) /admin/$1 [L]", "/go/x", "", "404"),
        ("RewriteRule ^adm(.*) /admin$1 [C]\nRewriteRule ^admin - [F]", "/adm/x", "", "404"),
        (
            "RewriteCond %{HTTP_HOST} ^w\nRewriteRule ^b https://b.example/ [R]\nRewriteRule ^go/(.*) /b/$1 [L]",
            "/go/x",
            "",
            "nothing",
        ),
        ("RewriteRule ^x/(.*)$ http://127.0.0.1:3000/x/$1 [P]", "/x/y", "", "404"),
        ("RewriteRule ^(.*)$ http://127.0.0.1:3000/$1 [P]", "/x/y", "", "127.0.0.1:3000"),
    ] {
        let text = folder(&format!("RewriteEngine On\n{lines}"));
        let asked = Asked { fields, ..Asked::of(path) };
        assert_eq!(asked.place(&text, "a.example"), expected, "{lines} {path}: {text}");
    }
    let text = folder(
        "RewriteEngine On\nRewriteRule ^a/(.*)\\.htm$ /b/$1.html [L]\nRewriteCond %{REQUEST_FILENAME}.php -f\nRewriteRule ^([^\\.]+)$ $1.php [NC,L]",
    );
    assert!(text.contains("rewrite = \"/b/$1.html\"") && text.contains("\"$path.php\""), "{text}");
}

#[test]
fn no_refusal_is_lost_by_a_condition_in_front_of_it_or_of_another() {
    let exempt =
        |number| format!("RewriteCond %{{REMOTE_ADDR}} ^10\\.0\\.0\\.{number}$\nRewriteRule ^pub{number}$ - [L]\n");
    let exempt: String = (0..7).map(exempt).collect();
    for (lines, path, client, host, expected) in [
        // What is exempt where nothing is there is not exempt where something is.
        (
            "RewriteCond %{REQUEST_FILENAME} !-f\nRewriteRule ^ - [L]\nRewriteRule \\.log$ - [F]",
            "/a.log",
            "",
            "",
            "403",
        ),
        (
            "RewriteCond %{REQUEST_FILENAME} -f [OR]\nRewriteCond %{REMOTE_ADDR} ^10\\.\nRewriteRule ^ - [F]",
            "/x",
            "",
            "",
            "403",
        ),
        // Too many to be said.
        (&format!("{exempt}RewriteRule ^ - [F]"), "/x", "10.0.0.0", "", "403"),
        // Without an end the last number goes on.
        ("RewriteCond %{REMOTE_ADDR} ^10\\.0\\.0\\.1\nRewriteRule ^ - [F]", "/x", "10.0.0.123", "", "403"),
        ("RewriteCond %{REMOTE_ADDR} ^10\\.0\\.0\\.1\nRewriteRule ^ - [F]", "/x", "10.0.0.1", "", "403"),
        ("RewriteCond %{REMOTE_ADDR} ^10\\.0\\.0\\.1\nRewriteRule ^ - [F]", "/x", "10.0.0.2", "", "unix:/run/php.sock"),
        ("RewriteCond %{REMOTE_ADDR} ^10\\.1\nRewriteRule ^ - [F]", "/x", "10.17.0.2", "", "403"),
        ("RewriteCond %{REMOTE_ADDR} ^(10|1.2.3.4)\nRewriteRule ^ - [F]", "/x", "112.3.4.5", "", "403"),
        ("RewriteCond %{REMOTE_ADDR} !^10.0.0.12\nRewriteRule ^ - [F]", "/x", "10.0.0.12", "", "unix:/run/php.sock"),
        ("RewriteCond %{REMOTE_ADDR} !^10.0.0.12\nRewriteRule ^ - [F]", "/x", "10.0.0.13", "", "403"),
        ("RewriteCond %{REMOTE_ADDR} ^1.2.3.4$|x$\nRewriteRule ^ - [F]", "/x", "10.0.0.13", "", "403"),
        ("RewriteCond %{HTTP_HOST} ^admin\\.corp\nRewriteRule ^ - [F]", "/x", "", "admin.corp.example", "403"),
        ("RewriteCond %{HTTP_HOST} !^a\\.example\nRewriteRule ^ - [F]", "/x", "", "b.example", "403"),
        ("RewriteCond %{HTTP_HOST} !^a\\.example\nRewriteRule ^ - [F]", "/x", "", "a.example", "unix:/run/php.sock"),
        (
            "RewriteCond %{HTTP_HOST} !^admin\\.corp\nRewriteRule ^ - [L]\nRewriteRule ^ - [F]",
            "/x",
            "",
            "admin.corp.example",
            "403",
        ),
        (
            "RewriteCond %{HTTP_HOST} ^a\\.example\nRewriteRule ^ - [L]\nRewriteRule ^ - [F]",
            "/x",
            "",
            "a.example",
            "unix:/run/php.sock",
        ),
    ] {
        let text = folder(&format!("RewriteEngine On\n{lines}"));
        let asked = Asked { client, ..Asked::of(path) };
        assert_eq!(asked.place(&text, host), expected, "{lines} {path} {client} {host}: {text}");
    }
    let any = |name: &str| {
        let of = |number| format!("RewriteCond %{{{name}}} v{number}x{}\n", if number < 8 { " [OR]" } else { "" });
        (0..9).map(of).collect::<String>()
    };
    let text =
        folder(&format!("RewriteEngine On\n{}{}RewriteRule ^ - [F]", any("HTTP_USER_AGENT"), any("HTTP_COOKIE")));
    let asked = Asked { fields: "User-Agent: v8x\r\nCookie: v8x\r\n", ..Asked::of("/x") };
    assert_eq!(asked.place(&text, ""), "403", "{text}");
}

#[test]
fn clear_text_is_led_to_https() {
    let text = "<VirtualHost *:80>\nServerName a.example\nRedirect permanent / https://a.example/\n</VirtualHost>\n<VirtualHost *:443>\nServerName a.example\n\
                DocumentRoot /srv/www\nSSLEngine on\nSSLCertificateFile /a.pem\nSSLCertificateKeyFile /a.key\n</VirtualHost>\n";
    let text = import(text, &ApacheOptions::default()).unwrap().text;
    assert!(text.contains("certificate = \"/a.pem\"") && text.matches("[[site]]").count() == 1, "{text}");
    let text = "<VirtualHost *:80>\nServerName a.example\nRewriteEngine on\nRewriteCond %{HTTPS} off\nRewriteRule ^ https://%{HTTP_HOST}%{REQUEST_URI} [R=301,L]\n\
                </VirtualHost>\n";
    let text = import(text, &ApacheOptions::default()).unwrap().text;
    assert_eq!(place(&text, "/x"), "to https://$host$path", "{text}");
    let text = "<VirtualHost *:443>\nServerName a.example\nDocumentRoot /srv/www\nSSLEngine on\n</VirtualHost>\n";
    let text = import(text, &ApacheOptions::default()).unwrap().text;
    assert!(!text.contains(":443\""), "nothing is served in clear text that was served over TLS: {text}");
}

#[test]
fn every_directive_is_carried_over_or_named() {
    for line in [
        "Frobnicate x",
        "SecRuleEngine On",
        "AddType text/x",
        "ErrorDocument 404 \"no\"",
        "php_value a b",
        "Options +ExecCGI",
        "RewriteRule a b",
        "Header echo X",
    ] {
        let imported = import(
            &format!("ServerSignature Off\n{line}\n"),
            &ApacheOptions { folder: Some("/srv/www".into()), php: None },
        )
        .unwrap();
        let named = imported.lost.iter().chain(&imported.needless).any(|note| note.line == 2);
        assert!(named, "{line}: {}", imported.text);
    }
    let text = folder("SecRuleEngine On");
    assert_eq!(place(&text, "/"), "404", "{text}");
}
