package server

import (
	"errors"
	"net"
	"syscall"
	"testing"

	"github.com/spf13/pflag"
	"k8s.io/utils/clock"

	"github.com/kanzen-io/kanzen/internal/process"
	"github.com/kanzen-io/kanzen/internal/process/config"
	"github.com/kanzen-io/kanzen/internal/store/memory"
)

// Two servers listen on one port with --permit-port-sharing, and not without.
func TestPortSharing(t *testing.T) {
	db := memory.New(clock.RealClock{})
	open := func(args ...string) (net.Addr, error) {
		cfg := config.Standalone()
		fs := pflag.NewFlagSet("serve", pflag.ContinueOnError)
		cfg.AddFlags(fs, true)
		if err := fs.Parse(append(args, "--data-dir="+t.TempDir())); err != nil {
			t.Fatal(err)
		}
		g, err := openWith(&cfg, process.Given{DB: db})
		if err != nil {
			return nil, err
		}
		l, err := g.Listen(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = errors.Join(l.Close(), g.Close()) })
		return l.Addr(), nil
	}
	const share = "--permit-port-sharing"
	addr, err := open("--secure-port=0", share)
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(addr.String())
	if _, err := open("--secure-port=" + port); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("a server that does not share: %v", err)
	}
	if _, err := open("--secure-port="+port, share, "--permit-address-sharing"); err != nil {
		t.Errorf("a second server that shares: %v", err)
	}
}
