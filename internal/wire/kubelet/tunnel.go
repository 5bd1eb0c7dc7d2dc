package kubelet

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"sync"

	"github.com/gorilla/websocket"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/kanzen-io/kanzen/internal/wire/upgrade"
)

// tunnelPrefix begins the name of a websocket protocol whose messages are the bytes of a SPDY connection. The protocol
// of that connection follows.
const tunnelPrefix = "SPDY/3.1+"

func isTunnel(protocol string) bool {
	return strings.HasPrefix(protocol, tunnelPrefix) && strings.HasSuffix(protocol, ".k8s.io")
}

// tunnel serves a port-forward whose client carries SPDY in a websocket. The kubelet is asked first: what it refuses is
// the answer to the client.
func (s *Server) tunnel(w http.ResponseWriter, r *http.Request, u *url.URL) error {
	var protocols []string
	for _, p := range websocket.Subprotocols(r) {
		if isTunnel(p) {
			protocols = append(protocols, strings.TrimPrefix(p, tunnelPrefix))
		}
	}
	req, err := streamRequest(r.Context(), u, protocols...)
	if err != nil {
		return err
	}
	b, err := s.kubelets.Send(req, s.kubelets.Answer)
	if err != nil {
		count(s.metrics.tunneled, http.StatusInternalServerError)
		return err
	}
	defer b.Close()
	if !b.Switched() {
		count(s.metrics.tunneled, b.Response.StatusCode)
		return upgrade.PassRefusal(w, b)
	}
	if !speaksSPDY(b.Response.Header) {
		count(s.metrics.tunneled, http.StatusInternalServerError)
		return apierrors.NewInternalError(errors.New("unable to upgrade: missing upgrade headers in response"))
	}
	var chosen []string
	if p := strings.TrimSpace(b.Response.Header.Get(headerProtocol)); p != "" {
		chosen = []string{tunnelPrefix + p}
	}
	sock, err := s.accept(w, r, chosen...)
	if err != nil {
		count(s.metrics.tunneled, http.StatusInternalServerError)
		return nil // answered
	}
	count(s.metrics.tunneled, http.StatusSwitchingProtocols)
	s.carry(r.Context(), sock, b)
	return nil
}

// carry carries the bytes of a SPDY connection until one side ends.
func (s *Server) carry(ctx context.Context, sock *socket, b *upgrade.Backend) {
	defer sock.Close()
	defer context.AfterFunc(ctx, func() {
		sock.bye(websocket.CloseGoingAway, "the server is shutting down")
		_ = sock.Close()
		_ = b.Close()
	})()
	var client sync.WaitGroup
	client.Go(func() {
		defer b.Close()
		to := &upgrade.Throttle{Writer: b, Limit: upgrade.NewLimit(s.cfg.BytesPerSecond), Context: ctx}
		for {
			kind, message, err := sock.NextReader()
			if err != nil || kind != websocket.BinaryMessage || upgrade.Copy(to, message, sock.touch) != nil {
				return
			}
		}
	})
	to := &upgrade.Throttle{Writer: messages{sock, websocket.BinaryMessage}, Limit: upgrade.NewLimit(s.cfg.BytesPerSecond), Context: ctx}
	_ = upgrade.Copy(to, b, func() {})
	sock.bye(websocket.CloseNormalClosure, "")
	_ = b.Close()
	sock.partingTime()
	client.Wait()
}
