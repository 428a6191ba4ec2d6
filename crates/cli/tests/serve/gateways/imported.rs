//! Published configurations of nginx for applications in PHP, as `lamna import` makes them ours, over php-fpm: pages,
//! path information, files, and nothing of what is not to be seen. Skipped, by name, where php-fpm is not installed.

use std::fs;
use std::process::Command;

use super::php::start_php;
use crate::engine::AMPED;
use crate::server::{Launch, Server};
use crate::skip::skipped;

const SCRIPT: &str = r#"<?php
header('Content-Type: text/plain');
echo 'run:', $_SERVER['SCRIPT_NAME'], ' ', basename($_SERVER['SCRIPT_FILENAME']), ' ', $_SERVER['PATH_INFO'] ?? '-', ' ',
    $_SERVER['REQUEST_URI'], ' ', $_SERVER['QUERY_STRING'];
"#;

/// What every application has, and nobody is to see.
const KEPT: [&str; 4] = ["/.env", "/.git/config", "/.htaccess", "/sub/.env"];

/// A server with what is imported of `nginx`, in which `ROOT` is the root and `PHP` the socket, and files with `SCRIPT`
/// in those that end with `.php`.
fn serve(nginx: &str, files: &[&str]) -> Option<(Server, super::php::Php, tempfile::TempDir)> {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("php.sock");
    let php = start_php(directory.path(), &socket)?;
    let mut launch = Launch::new(AMPED);
    for name in files.iter().chain(&[".env", ".git/config", ".htaccess", "sub/.env"]) {
        launch = launch.file(name, if name.ends_with(".php") { SCRIPT } else { "<?php file\n" });
    }
    let root = launch.site().display().to_string();
    let text = nginx.replace("ROOT", &root).replace("PHP", &format!("unix:{}", socket.display()));
    let file = directory.path().join("nginx.conf");
    fs::write(&file, text).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_lamna")).arg("import").arg(&file).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}");
    let imported = String::from_utf8(output.stdout).unwrap();
    let lines = imported.lines().filter(|line| !line.starts_with("listen = ")).collect::<Vec<_>>().join("\n");
    Some((launch.config(&lines).start(), php, directory))
}

/// Each line is a path, and what its answer begins with, or its status.
fn hold(name: &str, nginx: &str, files: &[&str], lines: &[(&str, &str)]) {
    let Some((server, _php, _directory)) = serve(nginx, files) else {
        return skipped("gateways::imported", "php-fpm is not installed");
    };
    let mut client = server.connect();
    let kept = KEPT.iter().map(|path| (*path, "refused"));
    for (path, expected) in lines.iter().copied().chain(kept) {
        let response = client.get(path).unwrap();
        let content = String::from_utf8_lossy(&response.content).into_owned();
        let is_held = match expected.parse::<u16>() {
            Ok(status) => response.status == status,
            // As the configuration says.
            Err(_) if expected == "refused" => matches!(response.status, 403 | 404),
            Err(_) => response.status == 200 && content.starts_with(expected),
        };
        assert!(is_held, "{name}: {path} is {} {content}, and not {expected}", response.status);
        assert!(!content.contains("<?php header") && !content.contains("$_SERVER"), "{name}: {path} shows a program");
    }
    server.finish();
}

#[test]
fn laravel() {
    let nginx = r#"server {
    listen 80;
    listen [::]:80;
    server_name example.com;
    root ROOT;
    add_header X-Frame-Options "SAMEORIGIN";
    add_header X-Content-Type-Options "nosniff";
    index index.php;
    charset utf-8;
    location / {
        try_files $uri $uri/ /index.php?$query_string;
    }
    location = /favicon.ico { access_log off; log_not_found off; }
    location = /robots.txt  { access_log off; log_not_found off; }
    error_page 404 /index.php;
    location ~ ^/index\.php(/|$) {
        fastcgi_pass PHP;
        fastcgi_param SCRIPT_FILENAME $realpath_root$fastcgi_script_name;
        include fastcgi_params;
        fastcgi_hide_header X-Powered-By;
    }
    location ~ /\.(?!well-known).* {
        deny all;
    }
}"#;
    // nginx sends other scripts there as they are: here they are not.
    let lines = [
        ("/", "run:/index.php index.php - / "),
        ("/users/1?a=b", "run:/index.php index.php /users/1 /users/1?a=b a=b"),
        ("/index.php", "run:/index.php index.php - /index.php "),
        ("/index.php/users/1", "run:/index.php index.php /users/1 "),
        ("/css/app.css", "<?php file"),
        ("/robots.txt", "<?php file"),
    ];
    hold("laravel", nginx, &["index.php", "css/app.css", "robots.txt", "favicon.ico"], &lines);
}

#[test]
fn symfony() {
    let nginx = r#"server {
    server_name example.com www.example.com;
    root ROOT;
    location / {
        try_files $uri /index.php$is_args$args;
    }
    location ~ ^/index\.php(/|$) {
        fastcgi_pass PHP;
        fastcgi_split_path_info ^(.+\.php)(/.*)$;
        include fastcgi_params;
        fastcgi_param SCRIPT_FILENAME $realpath_root$fastcgi_script_name;
        fastcgi_param DOCUMENT_ROOT $realpath_root;
        internal;
    }
    location ~ \.php$ {
        return 404;
    }
    error_log /var/log/nginx/project_error.log;
    access_log /var/log/nginx/project_access.log;
}"#;
    let nginx = nginx
        .replace("/var/log/nginx/project_error.log", "stderr notice")
        .replace("/var/log/nginx/project_access.log", "off");
    let lines = [
        ("/", "run:/index.php index.php - / "),
        ("/users/1?a=b", "run:/index.php index.php /users/1 /users/1?a=b a=b"),
        ("/index.php", "404"),
        ("/index.php/users/1", "404"),
        ("/other.php", "404"),
        ("/sub/other.php", "404"),
        ("/css/app.css", "<?php file"),
    ];
    hold("symfony", &nginx, &["index.php", "other.php", "sub/other.php", "css/app.css"], &lines);
}

#[test]
fn wordpress() {
    let nginx = r#"upstream php {
    server PHP;
}
server {
    server_name domain.tld;
    root ROOT;
    index index.php;
    location = /favicon.ico { log_not_found off; access_log off; }
    location = /robots.txt { allow all; log_not_found off; access_log off; }
    location / {
        try_files $uri $uri/ /index.php?$args;
    }
    location ~ \.php$ {
        include fastcgi_params;
        fastcgi_intercept_errors on;
        fastcgi_pass php;
        fastcgi_param SCRIPT_FILENAME $document_root$fastcgi_script_name;
    }
    location ~* \.(js|css|png|jpg|jpeg|gif|ico)$ {
        expires max;
        log_not_found off;
    }
    location ~ /\. { deny all; }
    location ~* /(?:uploads|files)/.*\.php$ { deny all; }
}"#;
    let files =
        ["index.php", "wp-login.php", "wp-admin/index.php", "wp-content/uploads/x.php", "style.css", "robots.txt"];
    let lines = [
        ("/", "run:/index.php index.php - / "),
        ("/2026/hello/", "run:/index.php index.php /2026/hello/ /2026/hello/ "),
        ("/wp-login.php", "run:/wp-login.php wp-login.php - "),
        ("/wp-admin/", "run:/wp-admin/index.php index.php - /wp-admin/ "),
        ("/style.css", "<?php file"),
    ];
    hold("wordpress", nginx, &files, &lines);
}

#[test]
fn drupal() {
    let nginx = r#"server {
    server_name example.com;
    root ROOT;
    location = /favicon.ico { log_not_found off; access_log off; }
    location = /robots.txt { allow all; log_not_found off; access_log off; }
    location ~* \.(txt|log)$ { deny all; }
    location ~ \..*/.*\.php$ { return 403; }
    location ~ ^/sites/.*/private/ { return 403; }
    location ~ ^/sites/[^/]+/files/.*\.php$ { deny all; }
    location ~* ^/.well-known/ { allow all; }
    location ~ (^|/)\. { return 403; }
    location / { try_files $uri /index.php?$query_string; }
    location @rewrite { rewrite ^ /index.php; }
    location ~ /vendor/.*\.php$ { deny all; return 404; }
    location ~* \.(engine|inc|install|make|module|profile|po|sh|.*sql|theme|twig|tpl(\.php)?|xtmpl|yml)(~|\.sw[op]|\.bak|\.orig|\.save)?$|/(\.(?!well-known).*)|Entries.*|Repository|Root|Tag|Template|composer\.(json|lock)|web\.config$|/#.*#$|\.php(~|\.sw[op]|\.bak|\.orig|\.save)$ {
        deny all;
        return 404;
    }
    location ~ '\.php$|^/update.php' {
        fastcgi_split_path_info ^(.+?\.php)(|/.*)$;
        try_files $fastcgi_script_name =404;
        include fastcgi_params;
        fastcgi_param HTTP_PROXY "";
        fastcgi_param SCRIPT_FILENAME $document_root$fastcgi_script_name;
        fastcgi_param PATH_INFO $fastcgi_path_info;
        fastcgi_param QUERY_STRING $query_string;
        fastcgi_intercept_errors on;
        fastcgi_pass PHP;
    }
    location ~* \.(js|css|png|jpg|jpeg|gif|ico|svg)$ {
        try_files $uri @rewrite;
        expires max;
        log_not_found off;
    }
    location ~ ^/sites/.*/files/styles/ { try_files $uri @rewrite; }
    location ~ ^(/[a-z\-]+)?/system/files/ { try_files $uri /index.php?$query_string; }
    if ($request_uri ~* "^(.*/)index\.php/(.*)") { return 307 $1$2; }
}"#;
    let files = [
        "index.php",
        "update.php",
        "core/install.php",
        "core/a.css",
        "core/a.yml",
        "settings.php.bak",
        "sites/default/files/x.php",
        "sites/default/private/x",
        "vendor/x.php",
        "robots.txt",
        "README.txt",
    ];
    let lines = [
        ("/", "run:/index.php index.php - / "),
        ("/node/1?a=b", "run:/index.php index.php /node/1 /node/1?a=b a=b"),
        ("/update.php/selection", "run:/update.php update.php /selection "),
        ("/core/install.php", "run:/core/install.php install.php - "),
        ("/core/a.css", "<?php file"),
        ("/core/a.yml", "404"),
        ("/settings.php.bak", "404"),
        ("/sites/default/files/x.php", "404"),
        ("/sites/default/private/x", "403"),
        ("/vendor/x.php", "404"),
        ("/README.txt", "404"),
    ];
    hold("drupal", nginx, &files, &lines);
}

#[test]
fn nextcloud() {
    let nginx = r#"upstream php-handler {
    server PHP;
}
map $arg_v $asset_immutable {
    "" "";
    default ", immutable";
}
server {
    listen 80;
    server_name cloud.example.com;
    root ROOT;
    server_tokens off;
    client_max_body_size 512M;
    client_body_timeout 300s;
    fastcgi_buffers 64 4K;
    gzip on;
    gzip_vary on;
    client_body_buffer_size 512k;
    add_header Referrer-Policy "no-referrer" always;
    add_header X-Frame-Options "SAMEORIGIN" always;
    fastcgi_hide_header X-Powered-By;
    index index.php index.html /index.php$request_uri;
    location = / {
        if ( $http_user_agent ~ ^DavClnt ) {
            return 302 /remote.php/webdav/$is_args$args;
        }
    }
    location = /robots.txt { allow all; log_not_found off; access_log off; }
    location ^~ /.well-known {
        location = /.well-known/carddav { return 301 /remote.php/dav/; }
        location = /.well-known/caldav  { return 301 /remote.php/dav/; }
        location /.well-known/acme-challenge { try_files $uri $uri/ =404; }
        location /.well-known/pki-validation { try_files $uri $uri/ =404; }
        return 301 /index.php$request_uri;
    }
    location ~ ^/(?:build|tests|config|lib|3rdparty|templates|data)(?:$|/)  { return 404; }
    location ~ ^/(?:\.|autotest|occ|issue|indie|db_|console)                { return 404; }
    location ~ \.php(?:$|/) {
        rewrite ^/(?!index|remote|public|cron|core\/ajax\/update|status|ocs\/v[12]|updater\/.+|ocs-provider\/.+|.+\/richdocumentscode(_arm64)?\/proxy) /index.php$request_uri;
        fastcgi_split_path_info ^(.+?\.php)(/.*)$;
        set $path_info $fastcgi_path_info;
        try_files $fastcgi_script_name =404;
        include fastcgi_params;
        fastcgi_param SCRIPT_FILENAME $document_root$fastcgi_script_name;
        fastcgi_param PATH_INFO $path_info;
        fastcgi_param HTTPS on;
        fastcgi_param modHeadersAvailable true;
        fastcgi_param front_controller_active true;
        fastcgi_pass php-handler;
        fastcgi_intercept_errors on;
        fastcgi_request_buffering off;
        fastcgi_max_temp_file_size 0;
    }
    location ~ \.(?:css|js|mjs|svg|gif|ico|jpg|png|webp|wasm|tflite|map|ogg|flac)$ {
        try_files $uri /index.php$request_uri;
        add_header Cache-Control "public, max-age=15778463$asset_immutable";
        access_log off;
        location ~ \.wasm$ { default_type application/wasm; }
    }
    location ~ \.(otf|woff2?)$ { try_files $uri /index.php$request_uri; expires 7d; access_log off; }
    location /remote { return 301 /remote.php$request_uri; }
    location / { try_files $uri $uri/ /index.php$request_uri; }
}"#;
    let files = [
        "index.php",
        "remote.php",
        "status.php",
        "lib/base.php",
        "other.php",
        "config/config.php",
        "core/a.css",
        "occ",
    ];
    let lines = [
        ("/", "run:/index.php index.php - / "),
        ("/apps/files?a=b", "run:/index.php index.php /apps/files /apps/files?a=b a=b"),
        ("/index.php/apps/files", "run:/index.php index.php /apps/files "),
        ("/remote.php/dav/x", "run:/remote.php remote.php /dav/x "),
        ("/status.php", "run:/status.php status.php - "),
        ("/other.php/x", "run:/index.php index.php /other.php/x "),
        ("/lib/base.php", "404"),
        ("/config/config.php", "404"),
        ("/occ", "404"),
        ("/core/a.css", "<?php file"),
        ("/.well-known/carddav", "301"),
    ];
    hold("nextcloud", nginx, &files, &lines);
}

/// What an application says of its answers reaches the client whatever other locations say of theirs.
#[test]
fn fields_of_an_application_are_left_to_it() {
    let nginx = r#"server {
    root ROOT;
    add_header X-Frame-Options DENY always;
    location / { try_files $uri /index.php; expires 1d; add_header Content-Security-Policy "default-src 'none'"; }
    location ~ \.css$ { expires 30d; }
    location ~ \.php$ { fastcgi_pass PHP; include fastcgi_params; }
}"#;
    let Some((server, _php, _directory)) = serve(nginx, &["a.css"]) else {
        return skipped("gateways::imported", "php-fpm is not installed");
    };
    let says = "<?php header('Cache-Control: private'); header('Content-Security-Policy: self'); header('X-Frame-Options: SAMEORIGIN'); echo 1;";
    fs::write(server.site().join("index.php"), says).unwrap();
    fs::write(server.site().join("quiet.php"), "<?php echo 1;").unwrap();
    let mut client = server.connect();
    for path in ["/index.php", "/any"] {
        let response = client.get(path).unwrap();
        let values = |name: &str| {
            let of = response.fields.iter().filter(|(one, _)| one.eq_ignore_ascii_case(name));
            of.map(|(_, value)| value.clone()).collect::<Vec<_>>()
        };
        assert_eq!(values("Cache-Control"), ["private"], "{path}");
        assert_eq!(values("X-Frame-Options"), ["SAMEORIGIN"], "{path}");
        assert_eq!(values("Content-Security-Policy"), ["self"], "{path}");
    }
    let quiet = client.get("/quiet.php").unwrap();
    assert_eq!((quiet.field("Cache-Control"), quiet.field("X-Frame-Options")), (None, Some("DENY")));
    let file = client.get("/a.css").unwrap();
    assert_eq!(file.field("Cache-Control"), Some("max-age=2592000"));
    server.finish();
}
