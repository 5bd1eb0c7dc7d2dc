package process

import (
	"context"
	"errors"
	"net"
	"strconv"
	"sync"

	"github.com/kanzen-io/kanzen/internal/base/listen"
	"github.com/kanzen-io/kanzen/internal/process/config"
)

// port is the port of the settings.
type port struct {
	addr    string
	sharing listen.Sharing

	mu   sync.Mutex
	free net.Listener // opened, but not handed out yet; guarded by mu
}

func openPort(ctx context.Context, cfg *config.Process) (*port, error) {
	p := &port{addr: net.JoinHostPort(cfg.BindAddress.String(), strconv.Itoa(cfg.SecurePort)),
		sharing: listen.Sharing{Port: cfg.PermitPortSharing, Address: cfg.PermitAddressSharing}}
	var err error
	if p.free, err = listen.TCP(ctx, p.addr, p.sharing); err != nil {
		return nil, err
	}
	p.addr = p.free.Addr().String() // the system may have chosen the number
	return p, nil
}

// Listen returns the listener of the process's port, nil if the settings have none. The caller closes it. Open has opened the
// first one; for a control plane that is started again, the same port is opened again.
func (p *Process) Listen(ctx context.Context) (net.Listener, error) {
	if p.port == nil {
		return nil, nil
	}
	p.port.mu.Lock()
	defer p.port.mu.Unlock()
	if l := p.port.free; l != nil {
		p.port.free = nil
		return l, nil
	}
	return listen.TCP(ctx, p.port.addr, p.port.sharing)
}

// close closes the port if nobody has taken it.
func (p *port) close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.free == nil {
		return nil
	}
	return p.free.Close()
}

// ClosePort closes what Listen has returned, which the HTTP server closes first if it has served.
func ClosePort(l net.Listener) error {
	if l == nil {
		return nil
	}
	if err := l.Close(); !errors.Is(err, net.ErrClosed) {
		return err
	}
	return nil
}

// PortOf returns the number of a port that Listen has returned: that of the settings if there is none (0: the system has chosen it).
func (p *Process) PortOf(l net.Listener) int {
	if l == nil {
		return p.settings.SecurePort
	}
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		return 0
	}
	n, _ := strconv.Atoi(port)
	return n
}
