package test

import (
	"path/filepath"
	"testing"

	psatest "k8s.io/pod-security-admission/test"
)

// TestPodSecurityStandards puts the fixtures of the Pod Security Standards, of
// every level and version, to the server.
func TestPodSecurityStandards(t *testing.T) {
	t.Parallel()
	k := serve(t, filepath.Join(t.TempDir(), "data"))
	psatest.Run(t, psatest.Options{ClientConfig: k.config()})
}
