//! What a process is started with.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

use super::Gateway;

/// Which command it is.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    #[default]
    Standalone,
    Proxy,
    Pusher,
}

impl Role {
    pub(super) fn command(self) -> &'static str {
        match self {
            Self::Standalone => "standalone",
            Self::Proxy => "proxy",
            Self::Pusher => "pusher",
        }
    }
}

#[derive(Debug, Default, Clone)]
pub struct Setup {
    pub role: Role,
    pub groups: Vec<Value>,
    /// Fields of the file's `proxy`, `pusher` and `queue.embedded` sections.
    pub proxy: Map<String, Value>,
    pub pusher: Map<String, Value>,
    pub embedded: Map<String, Value>,
    /// Further fields of the file, such as `zookeepers`.
    pub fields: Map<String, Value>,
    /// The whole file, as it is, in place of all of the above; addresses then come from flags.
    pub text: Option<String>,
    pub flags: Vec<String>,
    pub environment: Vec<(String, String)>,
    /// Command put before the binary, such as one that mounts a small disk.
    pub wrapper: Vec<String>,
    pub data_dir: Option<PathBuf>,
}

impl Setup {
    pub fn groups(groups: impl IntoIterator<Item = Value>) -> Self {
        Self { groups: groups.into_iter().collect(), ..Self::default() }
    }

    /// Of this very file.
    pub fn file(role: Role, text: impl Into<String>) -> Self {
        Self { role, text: Some(text.into()), ..Self::default() }
    }

    #[must_use]
    pub fn embedded(mut self, name: &str, value: Value) -> Self {
        self.embedded.insert(name.into(), value);
        self
    }

    #[must_use]
    pub fn proxy(mut self, name: &str, value: Value) -> Self {
        self.proxy.insert(name.into(), value);
        self
    }

    #[must_use]
    pub fn pusher(mut self, name: &str, value: Value) -> Self {
        self.pusher.insert(name.into(), value);
        self
    }

    #[must_use]
    pub fn field(mut self, name: &str, value: Value) -> Self {
        self.fields.insert(name.into(), value);
        self
    }

    #[must_use]
    pub fn flags(mut self, flags: &[&str]) -> Self {
        self.flags.extend(flags.iter().map(|&flag| flag.to_owned()));
        self
    }

    /// Started, and ready.
    pub async fn start(self) -> Gateway {
        let mut gateway = Gateway::new(self);
        gateway.restart().await;
        gateway
    }

    /// Started; it may never be ready.
    pub fn spawn(self) -> Gateway {
        let mut gateway = Gateway::new(self);
        gateway.spawn();
        gateway
    }

    pub(super) fn file_text(&self, api: SocketAddr, admin: SocketAddr, data: &Path) -> String {
        self.text.clone().unwrap_or_else(|| serde_json::to_string_pretty(&self.made(api, admin, data)).unwrap())
    }

    fn made(&self, api: SocketAddr, admin: SocketAddr, data: &Path) -> Value {
        let (mut proxy, mut pusher) = (self.proxy.clone(), self.pusher.clone());
        let mut file = json!({"consumer_groups": self.groups});
        match self.role {
            Role::Standalone => {
                let mut embedded = self.embedded.clone();
                embedded.insert("dir".into(), data.to_str().unwrap().into());
                file["queue"] = json!({"embedded": embedded});
                file["coordinator"] = json!({"embedded": {"dir": data}});
                proxy.entry("listen").or_insert_with(|| api.to_string().into());
                pusher.entry("admin").or_insert_with(|| admin.to_string().into());
            }
            Role::Proxy => {
                proxy.entry("listen").or_insert_with(|| api.to_string().into());
                proxy.entry("admin").or_insert_with(|| admin.to_string().into());
            }
            Role::Pusher => drop(pusher.entry("admin").or_insert_with(|| admin.to_string().into())),
        }
        (file["proxy"], file["pusher"]) = (proxy.into(), pusher.into());
        file.as_object_mut().unwrap().extend(self.fields.clone());
        file
    }

    pub(super) fn all_flags(&self, api: SocketAddr, admin: SocketAddr) -> Vec<String> {
        let mut flags = self.flags.clone();
        if self.text.is_some() {
            flags.extend(["--admin".to_owned(), admin.to_string()]);
        }
        if self.text.is_some() && self.role != Role::Pusher {
            flags.extend(["--listen".to_owned(), api.to_string()]);
        }
        flags
    }
}

/// A group named `name` that pushes `topic` to `url`, from the oldest, with further fields.
pub fn group(name: &str, topic: &str, url: &str, more: &Value) -> Value {
    let mut group = json!({"group": name, "topics": [topic], "url": url, "initial_from_oldest": true});
    let fields = group.as_object_mut().unwrap();
    fields.extend(more.as_object().unwrap().clone());
    group
}
