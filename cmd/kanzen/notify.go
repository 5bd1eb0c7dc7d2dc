package main

import (
	"log/slog"
	"net"
	"os"
)

// notify tells the service manager, systemd for instance, about the state of this process: sd_notify(3). Without one it
// does nothing.
func notify(log *slog.Logger, state string) {
	path := os.Getenv("NOTIFY_SOCKET")
	if path == "" {
		return
	}
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: path, Net: "unixgram"}) // "@" begins an abstract name
	if err != nil {
		log.Warn("cannot notify the service manager", "state", state, "error", err)
		return
	}
	defer conn.Close()
	if _, err := conn.Write([]byte(state)); err != nil {
		log.Warn("cannot notify the service manager", "state", state, "error", err)
	}
}
