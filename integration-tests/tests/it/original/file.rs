//! Files as users of the original have them.

use integration_tests::binary::workspace;
use integration_tests::cluster::Cluster;
use integration_tests::receiver::Receiver;
use tokio::sync::OnceCell;

/// The published example with its URL, and the text that it makes.
pub(super) struct Example {
    pub(super) text: String,
    pub(super) url: String,
}

/// Changed in its ports alone.
pub(super) fn example(cluster: &Cluster, receiver: &Receiver) -> Example {
    let shipped = std::fs::read_to_string(workspace().join("configs/original.json")).unwrap();
    let url = format!("http://localhost:{}", receiver.addr.port());
    let text = replaced(&shipped, "\"http://localhost\"", &format!("{url:?}"));
    let text = replaced(&text, "127.0.0.1:2181", &cluster.zookeeper().to_string());
    Example { text, url }
}

impl Example {
    pub(super) fn with_topic(mut self, topic: &str) -> Self {
        self.text = replaced(&self.text, "\"test\"", &format!("{topic:?}"));
        self
    }
}

#[track_caller]
fn replaced(text: &str, from: &str, to: &str) -> String {
    assert_eq!(text.matches(from).count(), 1, "{from} in {text}");
    text.replace(from, to)
}

/// The topic that the example names; there is one broker for all tests.
pub(super) async fn ensure_topic(cluster: &Cluster) {
    static MADE: OnceCell<()> = OnceCell::const_new();
    MADE.get_or_init(|| cluster.kafka.create_topic("test", 3, &[])).await;
}

/// What has no meaning here, and a word of what is said about it.
pub(super) const IGNORED: [(&str, &str); 8] = [
    ("`offset`", "initial_from_oldest"),
    ("`connection_pool_size`", "worker_num"),
    ("`stat_server_port`", "pusher.admin"),
    ("`log_file`", "stderr"),
    ("`log_collect_ratio`", "/metrics"),
    ("`arbiter_config`", "max_in_flight_records"),
    ("`transporter_name`", "HTTP"),
    ("`transporter_config`", "serializer"),
];

/// The shipped file with each field that the original knew; its second group waits for a topic.
pub(super) fn every_field(cluster: &Cluster, receiver: &Receiver, topic: &str) -> String {
    let text = std::fs::read_to_string(workspace().join("configs/original-every-field.json")).unwrap();
    let text = replaced(&text, "\"http://localhost\"", &format!("{:?}", receiver.url()));
    let text = replaced(&text, "\"t1\"", &format!("{topic:?}"));
    text.replace("127.0.0.1:2181", &cluster.zookeeper().to_string()).replace("\"/chroot\"", &format!("{:?}", cluster.zk_path()))
}
