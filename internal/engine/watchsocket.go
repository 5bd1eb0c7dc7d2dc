package engine

import (
	"context"
	"io"
	"net/http"
	"strings"

	"golang.org/x/net/websocket"
)

// isWebSocket says that a client wants to speak over a websocket.
func isWebSocket(req *http.Request) bool {
	if !strings.EqualFold(req.Header.Get("Upgrade"), "websocket") {
		return false
	}
	for _, v := range strings.Split(req.Header.Get("Connection"), ",") {
		if strings.EqualFold(strings.TrimSpace(v), "upgrade") {
			return true
		}
	}
	return false
}

// overSocket sends the watch over a websocket, a message for each event: text
// for JSON, without the length in front for protobuf.
func (s *watchStream) overSocket(ctx context.Context, run func(ctx context.Context) error) error {
	binary := s.out.media == mediaProtobuf
	var err error
	websocket.Handler(func(ws *websocket.Conn) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		// What the client says is of no interest, but that it has gone is.
		go func() {
			defer cancel()
			_, _ = io.Copy(io.Discard, ws)
		}()
		s.write = func(frames []byte) error { return s.messages(ws, frames, binary) }
		err = run(ctx)
		_ = ws.Close()
	}).ServeHTTP(s.w, s.req)
	return err
}

// messages sends each frame as a message.
func (s *watchStream) messages(ws *websocket.Conn, frames []byte, binary bool) error {
	from := 0
	for _, end := range s.ends {
		frame := frames[from:end]
		from = end
		var err error
		if binary {
			err = websocket.Message.Send(ws, frame[lengthSize:])
		} else {
			err = websocket.Message.Send(ws, string(frame))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// lengthSize is the size of the length in front of each protobuf frame.
const lengthSize = 4
