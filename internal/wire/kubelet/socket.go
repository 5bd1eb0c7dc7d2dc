package kubelet

import (
	"io"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/gorilla/websocket"

	"github.com/kanzen-io/kanzen/internal/wire/upgrade"
)

const (
	// socketIdle ends a websocket over which nothing comes or goes.
	socketIdle = 4 * time.Hour
	// lastWord bounds writing the last message to a client, and waiting for it to have read it.
	lastWord = 10 * time.Second
)

// isWebSocket reports whether a request asks for a websocket.
func isWebSocket(r *http.Request) bool {
	return strings.EqualFold(r.Header.Get("Upgrade"), "websocket") && upgrade.Requested(r)
}

// asksFor reports whether a websocket request names a protocol that fits.
func asksFor(r *http.Request, fits func(protocol string) bool) bool {
	return isWebSocket(r) && slices.ContainsFunc(websocket.Subprotocols(r), fits)
}

// socket is a websocket to a client.
type socket struct {
	*websocket.Conn
	touched atomic.Int64 // when the idle timeout was last put off, in seconds
}

// accept answers a websocket request. On an error, it has answered with it.
func (s *Server) accept(w http.ResponseWriter, r *http.Request, protocols ...string) (*socket, error) {
	u := websocket.Upgrader{
		Subprotocols:    protocols,
		WriteBufferPool: &s.sockets,
		CheckOrigin:     func(*http.Request) bool { return true }, // chain.Origin has looked at it
	}
	conn, err := u.Upgrade(w, r, nil)
	if err != nil {
		return nil, err
	}
	k := &socket{Conn: conn}
	k.touch()
	return k, nil
}

// touch puts off the idle timeout.
func (k *socket) touch() {
	now := time.Now()
	if last := k.touched.Load(); now.Unix()-last < 60 || !k.touched.CompareAndSwap(last, now.Unix()) {
		return // accurate to a minute
	}
	_ = k.SetReadDeadline(now.Add(socketIdle))
	_ = k.SetWriteDeadline(now.Add(socketIdle))
}

// discard reads until the client closes the websocket or is gone.
func (k *socket) discard() {
	for {
		if _, _, err := k.NextReader(); err != nil {
			return
		}
		k.touch()
	}
}

// bye tells the client that the end has come. It does not wait.
func (k *socket) bye(code int, text string) {
	_ = k.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(code, text), time.Now().Add(lastWord))
}

// partingTime bounds reading from a client that has been told the end, so that what it was sent before is not lost by
// closing a connection with unread data.
func (k *socket) partingTime() { _ = k.SetReadDeadline(time.Now().Add(lastWord)) }

// messages writes each piece as a message.
type messages struct {
	sock *socket
	kind int
}

func (m messages) Write(p []byte) (int, error) {
	m.sock.touch()
	if err := m.sock.WriteMessage(m.kind, p); err != nil {
		return 0, err
	}
	return len(p), nil
}

var _ io.Writer = messages{}
