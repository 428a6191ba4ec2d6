//! `lamna explain` from outside: the answer of a URL by the configuration, without a server.

use std::fs;

use super::{directory_with, outcome};

#[test]
fn a_url_is_explained_by_the_configuration_without_a_server() {
    let directory = directory_with(
        "[[site]]\nhosts = [\"a.example\"]\nroot = \"www\"\nheaders = { X-A = \"1\" }\n\n[[site]]\nroot = \"www\"\nbrowse = true\n",
    );
    fs::write(directory.path().join("www/ä b.txt"), "content").unwrap();
    let explain = |url: &str| outcome(&directory, &["explain", url, "--config", "lamna.toml"]);
    let (code, said, errors) = explain("https://a.example:8443/ä b.txt#there");
    assert_eq!((code, errors.as_str()), (0, ""), "{said}");
    for part in
        ["a.example: `a.example` is among its hosts", "is a file of 7 bytes", "200 OK", "X-A: 1", "Content-Length: 7"]
    {
        assert!(said.contains(part), "{part} in {said}");
    }
    let (code, said, errors) = explain("http://b.example/");
    assert_eq!(errors, "", "no client has asked, and nothing is reported");
    let answers = "site     2: no site has the host `b.example`: the site without hosts answers";
    assert!(code == 0 && said.contains(answers) && said.contains("200 OK"), "{said}");
    let (code, said, _) = explain("http://a.example/");
    assert!(code == 0 && said.contains("403 Forbidden") && said.contains("`browse` is off"), "{said}");
    let (code, said, _) = outcome(&directory, &["explain", "/ä c.txt", "www", "--json"]);
    assert!(code == 0 && said.contains("\"status\":404") && said.contains("there is `ä b.txt`"), "{said}");
}

#[test]
fn what_is_no_url_is_wrong_usage_and_a_file_that_is_wrong_is_said() {
    let directory = directory_with("[[site]]\nrot = \"www\"\n");
    let (code, _, errors) = outcome(&directory, &["explain", "a.example/b"]);
    assert!(code == 2 && errors.contains("expected http://HOST/PATH"), "{errors}");
    let (code, _, errors) = outcome(&directory, &["explain", "/", "--config", "lamna.toml"]);
    assert!(code == 78 && errors.contains("did you mean `root`?"), "{errors}");
}
