package server

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kanzen-io/kanzen/internal/process/config"
)

// TestRecorderWithoutDirectory starts servers whose directory for requests cannot be made: one that nobody has asked for stops no start.
func TestRecorderWithoutDirectory(t *testing.T) {
	alone(t, testing.Short())
	dir := t.TempDir()
	taken := filepath.Join(dir, "recorder")
	t.Run("first", func(t *testing.T) {
		startWith(t, func(c *config.Config) { c.DataDir, c.FlightRecorderDirSize = dir, 0 })
	})
	if err := os.WriteFile(taken, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	s := startWith(t, func(c *config.Config) { c.DataDir = dir })
	do(t, s, "POST", "/apis/flightrecorder.kanzen.io/v1alpha1/objecthistories", "application/json", "", []byte(`{"spec":{"resource":"namespaces","name":"default"}}`), 201)

	on, root := *s.base.process, *s.base.root
	root.FlightRecorderDir, on.Root = taken, &root
	if _, err := on.Recorder(s.base.metrics.Register); err == nil || !strings.HasPrefix(err.Error(), "--flight-recorder-dir: ") {
		t.Errorf("one that was asked for: %v", err)
	}
}
