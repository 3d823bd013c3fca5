//! The nodes of the simulated servers, and transactions over them.

use std::collections::BTreeMap;

use zookeeper_client::{CreateMode, Error, Stat};

use super::super::paths;
use super::super::wire::Op;

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Znode {
    pub(super) data: Vec<u8>,
    pub(super) version: i32,
    pub(super) czxid: i64,
    pub(super) mzxid: i64,
    /// The session that made it, if it is ephemeral; else 0.
    pub(super) owner: i64,
}

#[derive(Clone, Default)]
pub(super) struct Tree {
    nodes: BTreeMap<String, Znode>,
    pub(super) zxid: i64,
}

impl Tree {
    pub(super) fn get(&self, path: &str) -> Option<&Znode> {
        self.nodes.get(path)
    }

    /// Names, not paths.
    pub(super) fn children(&self, path: &str) -> Vec<String> {
        let inside = format!("{path}/");
        let below = self.nodes.range(inside.clone()..).map(|(path, _)| path).take_while(|path| path.starts_with(&inside));
        below.map(|path| path[inside.len()..].to_owned()).filter(|name| !name.contains('/')).collect()
    }

    fn has_children(&self, path: &str) -> bool {
        let inside = format!("{path}/");
        self.nodes.range(inside.clone()..).next().is_some_and(|(path, _)| path.starts_with(&inside))
    }

    pub(super) fn ephemerals(&self, session: i64) -> Vec<String> {
        self.nodes.iter().filter(|(_, node)| node.owner == session).map(|(path, _)| path.clone()).collect()
    }

    /// All of it under one number, or nothing and the operation that could not be done.
    pub(super) fn multi(&mut self, session: i64, ops: &[Op]) -> Result<Vec<Option<Stat>>, (usize, Error)> {
        let zxid = self.zxid + 1;
        let mut undo = Vec::new();
        let mut stats = Vec::with_capacity(ops.len());
        for (index, op) in ops.iter().enumerate() {
            match self.apply(session, zxid, op, &mut undo) {
                Ok(stat) => stats.push(stat),
                Err(error) => {
                    for (path, before) in undo.into_iter().rev() {
                        match before {
                            Some(node) => drop(self.nodes.insert(path, node)),
                            None => drop(self.nodes.remove(&path)),
                        }
                    }
                    return Err((index, error));
                }
            }
        }
        self.zxid = zxid;
        Ok(stats)
    }

    fn apply(&mut self, session: i64, zxid: i64, op: &Op, undo: &mut Vec<(String, Option<Znode>)>) -> Result<Option<Stat>, Error> {
        match op {
            Op::Create { path, data, mode } => {
                if self.nodes.contains_key(path) {
                    return Err(Error::NodeExists);
                }
                let parent = paths::parent(path);
                if !parent.is_empty() && !self.nodes.contains_key(parent) {
                    return Err(Error::NoNode);
                }
                let owner = if *mode == CreateMode::Ephemeral { session } else { 0 };
                let node = Znode { data: data.clone(), version: 0, czxid: zxid, mzxid: zxid, owner };
                undo.push((path.clone(), None));
                let stat = stat(&node);
                self.nodes.insert(path.clone(), node);
                Ok(Some(stat))
            }
            Op::Set { path, data, version } => {
                let node = self.nodes.get_mut(path).ok_or(Error::NoNode)?;
                if version.is_some_and(|version| version != -1 && version != node.version) {
                    return Err(Error::BadVersion);
                }
                undo.push((path.clone(), Some(node.clone())));
                (node.data, node.version, node.mzxid) = (data.clone(), node.version + 1, zxid);
                Ok(Some(stat(node)))
            }
            Op::Delete { path } => {
                if self.has_children(path) {
                    return Err(Error::NotEmpty);
                }
                let node = self.nodes.remove(path).ok_or(Error::NoNode)?;
                undo.push((path.clone(), Some(node)));
                Ok(None)
            }
            Op::Exists { path } => self.nodes.contains_key(path).then_some(None).ok_or(Error::NoNode),
        }
    }
}

pub(super) fn stat(node: &Znode) -> Stat {
    Stat {
        czxid: node.czxid,
        mzxid: node.mzxid,
        pzxid: node.czxid,
        ctime: 0,
        mtime: 0,
        version: node.version,
        cversion: 0,
        aversion: 0,
        ephemeral_owner: node.owner,
        data_length: i32::try_from(node.data.len()).unwrap(),
        num_children: 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As the real servers answer; `integration-tests` asks them the same through the product.
    #[test]
    fn a_transaction_is_whole_or_nothing_and_its_nodes_have_one_number() {
        let mut tree = Tree::default();
        let create = |path: &str| Op::create(path.into(), "x");
        assert_eq!(tree.multi(1, &[create("/a"), create("/b"), create("/c/d")]), Err((2, Error::NoNode)));
        assert!(tree.get("/a").is_none() && tree.zxid == 0);
        let stats = tree.multi(1, &[create("/a"), create("/a/b"), Op::create_ephemeral("/e".into(), "")]).unwrap();
        assert!(stats.iter().all(|stat| stat.unwrap().mzxid == 1));
        assert_eq!(tree.multi(1, &[create("/a")]), Err((0, Error::NodeExists)));
        let set = |version| Op::Set { path: "/a".into(), data: vec![], version };
        assert_eq!(tree.multi(1, &[set(Some(0)), set(Some(0))]), Err((1, Error::BadVersion)));
        assert_eq!(tree.get("/a").unwrap().version, 0);
        tree.multi(1, &[set(Some(0)), set(Some(-1)), set(None)]).unwrap();
        assert_eq!((tree.get("/a").unwrap().version, tree.get("/a/b").unwrap().mzxid), (3, 1));
        assert_eq!(tree.multi(1, &[Op::Delete { path: "/a".into() }]), Err((0, Error::NotEmpty)));
        assert_eq!((tree.children(""), tree.ephemerals(1)), (vec!["a".into(), "e".into()], vec!["/e".into()]));
    }
}
