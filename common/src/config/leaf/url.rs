//! Callback URLs: http or https, with a host that is not a cloud's metadata service.

use crate::config::cloud::names_cloud_metadata;

/// A callback URL, and the text it was given as: the default group name is that text's hash.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::config) struct Callback {
    pub(in crate::config) uri: http::Uri,
    pub(in crate::config) written: String,
}

const WHOLE_URL: &str = "a URL needs http:// or https:// and a host, such as \"http://127.0.0.1:8080/callback\"";

pub(in crate::config) fn parse(text: &str) -> Result<Callback, String> {
    let fail = |why: &str| Err(format!("{:?}: {why}", shown(text).chars().take(200).collect::<String>()));
    if let Some(odd) = text.chars().find(|c| !c.is_ascii_graphic()) {
        return fail(&format!("{odd:?} cannot stand in a URL; percent-encode it"));
    }
    let Some((scheme, rest)) = text.split_once("://") else { return fail(WHOLE_URL) };
    if !["http", "https"].iter().any(|known| scheme.eq_ignore_ascii_case(known)) {
        return fail("only http:// and https:// can be called");
    }
    if rest.is_empty() || rest.starts_with(['/', '?', '#', ':']) || rest.starts_with("[]") {
        return fail(&format!("the host is missing; {WHOLE_URL}"));
    }
    let uri: http::Uri = match text.parse() {
        Ok(uri) => uri,
        Err(error) => return fail(&error.to_string()),
    };
    let Some(authority) = uri.authority().filter(|authority| !authority.host().is_empty()) else {
        return fail(&format!("the host is missing; {WHOLE_URL}"));
    };
    // What follows the host is a colon and a port, or nothing.
    let host_and_port = authority.as_str().rsplit_once('@').map_or(authority.as_str(), |(_, host)| host);
    let port = &host_and_port[authority.host().len()..];
    if !port.is_empty() && !matches!(authority.port_u16(), Some(1..)) {
        return fail("a port is 1 to 65535");
    }
    if text.contains('#') {
        return fail("what follows `#` is never sent; leave it out");
    }
    if names_cloud_metadata(authority.host()) {
        return fail("this is a cloud's metadata service, which hands out credentials; it is never called");
    }
    Ok(Callback { written: text.to_owned(), uri })
}

/// Whether the text is a URL, good or bad, with a user and perhaps a password in it.
pub(super) fn has_user(text: &str) -> bool {
    text.contains("://") && text.contains('@')
}

/// The URL without user and password, which are the receiver's secret.
pub(in crate::config) fn shown(url: &str) -> String {
    let after_scheme = url.find("://").map_or(0, |at| at + 3);
    let authority = url[after_scheme..].find(['/', '?', '#']).map_or(url.len(), |at| after_scheme + at);
    match url[after_scheme..authority].rfind('@') {
        Some(at) => format!("{}***{}", &url[..after_scheme], &url[after_scheme + at..]),
        None => url.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_callback_is_http_or_https_with_a_host() {
        for good in ["http://localhost", "https://rx.example:8443/a/b?c=//d", "http://[::1]:9000/", "http://10.0.0.1/x"] {
            assert!(parse(good).is_ok(), "{good}: {:?}", parse(good));
        }
        for bad in [
            "",
            "localhost:8080",
            "/callback",
            "ftp://h/",
            "http://",
            "http:///x",
            "http://h:0/",
            "http://h:99999/",
            "http://h:/",
            "http://h/a b",
            "http://h/é",
            "http://h/#x",
            "http://[]/",
            "http://h:80:90/",
            "HTTP",
        ] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn what_a_url_lacks_is_said() {
        for (lacking, missing) in
            [("", ""), ("localhost:8080", ""), ("http://", "the host is missing; "), ("http://:80/", "the host is missing; ")]
        {
            let why = parse(lacking).unwrap_err();
            assert!(why.starts_with(&format!("{lacking:?}: {missing}a URL needs http:// or https:// and a host")), "{why}");
        }
    }

    #[test]
    fn cloud_metadata_is_never_called() {
        for host in ["169.254.169.254", "169.254.169.254:80", "u:p@169.254.169.254", "[fd00:ec2::254]:80", "metadata.google.internal"] {
            let verdict = parse(&format!("http://{host}/latest/"));
            assert!(verdict.as_ref().is_err_and(|why| why.contains("metadata")), "{host}: {verdict:?}");
        }
    }

    #[test]
    fn a_receivers_password_is_not_shown() {
        assert_eq!(shown("http://u:p@h:1/a@b?c"), "http://***@h:1/a@b?c");
        assert_eq!(shown("http://h/?mail=a@b"), "http://h/?mail=a@b");
        assert_eq!(shown("u:p@h"), "***@h");
        assert!(!parse("ftp://user:secret@h/").unwrap_err().contains("secret"));
        assert!(parse("https://user:secret@h:8443/").is_ok());
    }
}
