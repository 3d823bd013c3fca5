//! `docker-compose.yml` without a container engine: its command lines run here, on the configuration that it mounts,
//! with addresses of this machine in place of the containers' names.

use std::fs::File;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use integration_tests::binary::{mqgate, workspace};
use integration_tests::cluster::{Cluster, fresh};
use integration_tests::{ports, wait};
use yaml_rust2::{Yaml, YamlLoader};

const TOKEN: (&str, &str) = ("MQGATE_ADMIN_TOKEN", "of-the-tests");

struct Compose(Yaml);

impl Compose {
    fn read() -> Self {
        let text = std::fs::read_to_string(workspace().join("docker-compose.yml")).unwrap();
        Self(YamlLoader::load_from_str(&text).unwrap().remove(0))
    }

    /// The services that are built here, with their command lines.
    fn ours(&self) -> Vec<(String, Vec<String>)> {
        let words = |service: &Yaml| service["command"].as_vec().unwrap().iter().map(|word| word.as_str().unwrap().to_owned()).collect();
        let services = self.0["services"].as_hash().unwrap().iter().filter(|(_, service)| !service["build"].is_badvalue());
        services.map(|(name, service)| (name.as_str().unwrap().to_owned(), words(service))).collect()
    }

    /// What is mounted into a service, by its path there.
    fn mounts(&self, service: &str) -> Vec<(String, String)> {
        let volumes = self.0["services"][service]["volumes"].as_vec().cloned().unwrap_or_default();
        let mount = |volume: &Yaml| {
            let mut parts = volume.as_str().unwrap().split(':');
            let here = parts.next().unwrap().trim_start_matches("./").to_owned();
            (parts.next().unwrap().to_owned(), here)
        };
        volumes.iter().map(mount).collect()
    }
}

struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn start(words: &[String], output: &Path) -> Running {
    let file = File::create(output).unwrap();
    let mut command = Command::new(mqgate());
    command.args(words).env(TOKEN.0, TOKEN.1).stdin(Stdio::null()).stdout(file.try_clone().unwrap()).stderr(file);
    Running(command.spawn().unwrap())
}

#[test]
fn every_configuration_that_is_mounted_is_valid_for_its_command() {
    let compose = Compose::read();
    let mut checked = 0;
    for (service, words) in compose.ours() {
        let Some(at) = words.iter().position(|word| word == "-c") else { continue };
        let mounts = compose.mounts(&service);
        let (_, here) = mounts.iter().find(|(there, _)| *there == words[at + 1]).unwrap_or_else(|| panic!("{service}: {words:?}"));
        let mut check = Command::new(mqgate());
        check.args(["check", "--for", &words[0]]).arg(workspace().join(here)).env(TOKEN.0, TOKEN.1);
        let said = check.output().unwrap();
        assert!(said.status.success(), "{service}: {}", String::from_utf8_lossy(&said.stderr));
        checked += 1;
    }
    assert_eq!(checked, 2, "a proxy and a pusher");
}

#[tokio::test(flavor = "multi_thread")]
async fn its_command_lines_take_a_message_in_and_show_it_at_the_receiver() {
    let (cluster, topic) = (Cluster::shared().await, fresh("orders"));
    let folder = tempfile::tempdir().unwrap();
    let [api, proxy_admin, admin, receiver] = [(); 4].map(|()| ports::free());
    let here = [
        ("zookeeper:2181", cluster.zookeeper().to_string()),
        ("kafka:9092", cluster.kafka.brokers()),
        ("/mqgate\"", format!("/{}\"", fresh("compose"))),
        ("0.0.0.0:9090", api.to_string()),
        ("0.0.0.0:9089", proxy_admin.to_string()),
        ("0.0.0.0:9091", admin.to_string()),
        ("receiver:9099", receiver.to_string()),
        ("\"orders\"", format!("\"{topic}\"")),
    ];
    let compose = Compose::read();
    let mut running = Vec::new();
    for (service, words) in compose.ours() {
        let words: Vec<String> = words
            .into_iter()
            .map(|word| match compose.mounts(&service).iter().find(|(there, _)| *there == word) {
                Some((_, mounted)) => {
                    let text = std::fs::read_to_string(workspace().join(mounted)).unwrap();
                    let text = here.iter().fold(text, |text, (there, here)| text.replace(there, here));
                    let file = folder.path().join(format!("{service}.json"));
                    std::fs::write(&file, text).unwrap();
                    file.to_str().unwrap().to_owned()
                }
                None => word.replace("0.0.0.0", "127.0.0.1").replace("9099", &receiver.port().to_string()),
            })
            .collect();
        running.push(start(&words, &folder.path().join(format!("{service}.log"))));
    }
    let log = |service: &str| std::fs::read_to_string(folder.path().join(format!("{service}.log"))).unwrap_or_default();
    integration_tests::producer::install_tls_provider();
    let http = reqwest::Client::new();
    wait::until("a 200 of the proxy", Duration::from_secs(30), || async {
        let sent = http.post(format!("http://{api}/topics/{topic}?key=customer-7")).body("hello from compose").send().await;
        sent.is_ok_and(|answer| answer.status() == 200).then_some(())
    })
    .await;
    let shown = wait::until("the message at the receiver", Duration::from_secs(30), || async {
        Some(log("receiver")).filter(|log| log.contains("hello from compose"))
    });
    let shown = shown.await;
    assert!(shown.contains("X-Kmq-Partition-Key: customer-7"), "{shown}");
    let groups = |token: &'static str| http.get(format!("http://{admin}/v1/groups")).bearer_auth(token).send();
    assert_eq!(groups(TOKEN.1).await.unwrap().status(), 200, "{}", log("pusher"));
}
