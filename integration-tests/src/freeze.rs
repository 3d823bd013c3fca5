//! A process that stands still.

use rustix::process::{Pid, Signal, kill_process};

/// SIGSTOP; returns once every thread stands still, which on a busy machine is not at once.
pub fn freeze(pid: Pid) {
    kill_process(pid, Signal::STOP).unwrap();
    let tasks = format!("/proc/{}/task", pid.as_raw_nonzero());
    let stands = |stat: &str| stat.rsplit(')').next().is_some_and(|rest| rest.starts_with(" T"));
    let all_stand = || {
        let mut tasks = std::fs::read_dir(&tasks).unwrap();
        tasks.all(|task| std::fs::read_to_string(task.unwrap().path().join("stat")).is_ok_and(|stat| stands(&stat)))
    };
    while !all_stand() {
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
}
