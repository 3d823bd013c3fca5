//! The configuration of a broker, as its file has it.

use super::Kafka;
use super::security::Security;
use crate::ports;

/// A name, the address that it listens at, the address that it tells, and the protocol.
type Listener = (&'static str, String, String, &'static str);

impl Kafka {
    pub(super) fn configuration(&self) -> String {
        let addr = self.addr.to_string();
        let mut listeners: Vec<Listener> = vec![("PLAINTEXT", addr.clone(), addr, "PLAINTEXT")];
        if let Some(relayed) = &self.relayed {
            listeners.push(("RELAYED", relayed.addr.to_string(), relayed.relay.addr().to_string(), "PLAINTEXT"));
        }
        if let Some(security) = &self.security {
            listeners.push(("SECURE", security.addr().to_string(), security.addr().to_string(), "SASL_SSL"));
        }
        let metadata = match &self.zookeeper {
            Some(zookeeper) => {
                format!("broker.id=1\nzookeeper.connect={}\nzookeeper.session.timeout.ms=2000\n", zookeeper.connect_string())
            }
            None => {
                listeners.push(("CONTROLLER", self.controller.to_string(), String::new(), "PLAINTEXT"));
                self.metadata(1, "broker,controller")
            }
        };
        let security = self.security.as_ref().map_or_else(String::new, Security::configuration);
        listening(&listeners) + &metadata + &security + &self.common_configuration(1) + self.lines
    }

    pub(super) fn configuration_of_second(&self) -> String {
        let addr = ports::free().to_string();
        let listeners = [("PLAINTEXT", addr.clone(), addr, "PLAINTEXT")];
        // It knows the name, and does not listen there.
        let protocols = "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT\n";
        listening(&listeners) + protocols + &self.metadata(2, "broker") + &self.common_configuration(2)
    }

    fn metadata(&self, id: u32, roles: &str) -> String {
        format!(
            "node.id={id}\nprocess.roles={roles}\ncontroller.listener.names=CONTROLLER\ncontroller.quorum.voters=1@{}\n\
             broker.session.timeout.ms=3000\nbroker.heartbeat.interval.ms=500\n",
            self.controller
        )
    }

    fn common_configuration(&self, id: u32) -> String {
        format!(
            "log.dirs={}\nauto.create.topics.enable=false\nnum.partitions=1\noffsets.topic.replication.factor=1\n\
             offsets.topic.num.partitions=1\ntransaction.state.log.replication.factor=1\ntransaction.state.log.min.isr=1\n\
             transaction.state.log.num.partitions=1\ngroup.initial.rebalance.delay.ms=0\nnum.network.threads=2\nnum.io.threads=4\n\
             log.cleaner.backoff.ms=500\nlog.cleaner.dedupe.buffer.size=10000000\nlog.initial.task.delay.ms=500\n",
            self.dir.path().join(format!("data-{id}")).display()
        )
    }
}

/// A listener that tells no address is for the cluster itself.
fn listening(listeners: &[Listener]) -> String {
    let list = |each: Vec<String>| each.join(",");
    let at = list(listeners.iter().map(|(name, at, ..)| format!("{name}://{at}")).collect());
    let told = listeners.iter().filter(|(_, _, told, _)| !told.is_empty());
    let told = list(told.map(|(name, _, told, _)| format!("{name}://{told}")).collect());
    let protocols = list(listeners.iter().map(|(name, .., protocol)| format!("{name}:{protocol}")).collect());
    format!("listeners={at}\nadvertised.listeners={told}\nlistener.security.protocol.map={protocols}\n")
}
