"""Constants that a launcher and its processes share; they import nothing."""

PEER_LOST = 3  # Exit code: a peer, the link to it, or the launcher is gone.
HEARTBEAT_S = 15  # Seconds of silence after which a process counts as lost.
