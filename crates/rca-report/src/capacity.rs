//! What the machine of a recording has, against which its cycles are measured.

use rca_cycles::Topology;
use serving_logs::Component;

/// Adds up the components of each host.
///
/// ```
/// let mut processor = serving_logs::Component::default();
/// processor.host = "node".to_owned();
/// processor.cores = Some(64.0);
/// let node = rca_report::capacity(vec![processor.clone(), processor]);
/// assert_eq!(node.cores.get("node"), Some(&128.0));
/// ```
#[must_use]
pub fn capacity(components: Vec<Component>) -> Topology {
    let mut topology = Topology::default();
    for part in components {
        if let Some(gb) = part.memory_gb {
            *topology.memory_gb.entry(part.host.clone()).or_default() += gb;
        }
        if let Some((index, gb)) = part.gpu {
            topology.gpu_gb.insert((part.host.clone(), index), gb);
        }
        if let Some(mhz) = part.cpu_mhz {
            topology.cpu_mhz.insert(part.host.clone(), mhz);
        }
        if let Some(cores) = part.cores {
            *topology.cores.entry(part.host.clone()).or_default() += cores;
        }
        if let Some((pid, gpu)) = part.process_gpu {
            topology.process_gpu.insert((part.host.clone(), pid), gpu);
        }
    }
    topology
}
