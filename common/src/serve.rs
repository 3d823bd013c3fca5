//! Accepting HTTP connections: time limits for slow clients, and a drain that lets answers end.
