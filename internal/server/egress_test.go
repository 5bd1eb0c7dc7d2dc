package server

import (
	"strings"
	"testing"

	"github.com/kanzen-io/kanzen/internal/process"
	"github.com/kanzen-io/kanzen/internal/process/config"
	"github.com/kanzen-io/kanzen/internal/wire/egress/egresstest"
)

func TestEgressSelectorFile(t *testing.T) {
	cfg := config.Standalone()
	cfg.DataDir, cfg.NoListener = t.TempDir(), true
	cfg.EgressSelectorConfigFile = egresstest.Write(t, map[string]string{"nodes": "{proxyProtocol: Direct}"})
	_, err := openWith(&cfg, process.Given{})
	if err == nil || !strings.HasPrefix(err.Error(), "--egress-selector-config-file: failed to validate egress selector configuration: ") {
		t.Error(err)
	}
}
