//! What the admin ports of proxy and pusher have in common.
