//! What a process uses while something is measured, and what the rest of the machine does meanwhile.

use std::time::Instant;

use procfs::process::{Process, all_processes};
use procfs::{CurrentSI, KernelStats};

/// Begun now, of one process.
pub(crate) struct Meter {
    pid: i32,
    began: Instant,
    cpu_s: f64,
    machine_s: f64,
    ours_s: f64,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Usage {
    /// Of user and system together.
    pub(crate) cpu_s: f64,
    /// The most memory that was resident at a time since the process began.
    pub(crate) peak_mib: f64,
    /// How many cores were busy with what does not belong to this run.
    pub(crate) elsewhere_cores: f64,
}

impl Meter {
    pub(crate) fn start(pid: i32) -> anyhow::Result<Self> {
        Ok(Self { pid, began: Instant::now(), cpu_s: cpu_s(&Process::new(pid)?)?, machine_s: machine_s()?, ours_s: ours_s()? })
    }

    /// Of a process that has just begun, from its first moment.
    pub(crate) fn since_birth(self) -> Self {
        Self { cpu_s: 0.0, ..self }
    }

    pub(crate) fn read(&self) -> anyhow::Result<Usage> {
        let process = Process::new(self.pid)?;
        let span = self.began.elapsed();
        let elsewhere_s = (machine_s()? - self.machine_s) - (ours_s()? - self.ours_s);
        Ok(Usage {
            cpu_s: cpu_s(&process)? - self.cpu_s,
            peak_mib: process.status()?.vmhwm.unwrap_or(0) as f64 / 1024.0,
            elsewhere_cores: (elsewhere_s / span.as_secs_f64()).max(0.0),
        })
    }
}

impl Usage {
    pub(crate) fn cpu_s_per_100k(&self, messages: u64) -> f64 {
        self.cpu_s / messages.max(1) as f64 * 100_000.0
    }
}

/// Resident now, in MiB, and how many threads there are.
pub(crate) fn size(pid: i32) -> anyhow::Result<(f64, u64)> {
    let status = Process::new(pid)?.status()?;
    Ok((status.vmrss.unwrap_or(0) as f64 / 1024.0, status.threads))
}

pub(crate) fn cpu_s_of(pid: i32) -> anyhow::Result<f64> {
    cpu_s(&Process::new(pid)?)
}

fn cpu_s(process: &Process) -> anyhow::Result<f64> {
    let stat = process.stat()?;
    Ok((stat.utime + stat.stime) as f64 / procfs::ticks_per_second() as f64)
}

fn machine_s() -> anyhow::Result<f64> {
    let total = KernelStats::current()?.total;
    let busy = total.user + total.nice + total.system + total.irq.unwrap_or(0) + total.softirq.unwrap_or(0);
    Ok(busy as f64 / procfs::ticks_per_second() as f64)
}

/// Of this process and all those below it.
fn ours_s() -> anyhow::Result<f64> {
    let stats: Vec<_> = all_processes()?.flatten().filter_map(|process| process.stat().ok()).collect();
    let mut family = vec![i32::try_from(std::process::id())?];
    let mut at = 0;
    while let Some(parent) = family.get(at).copied() {
        family.extend(stats.iter().filter(|stat| stat.ppid == parent).map(|stat| stat.pid));
        at += 1;
    }
    let ticks: u64 = stats.iter().filter(|stat| family.contains(&stat.pid)).map(|stat| stat.utime + stat.stime).sum();
    Ok(ticks as f64 / procfs::ticks_per_second() as f64)
}
