package engine

import (
	"context"
	"io"
	"net/http"
	"slices"
	"strings"

	"golang.org/x/net/websocket"
)

// isWebSocket says that a client asks for a websocket.
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
// for JSON, binary for others, without the length in front for protobuf.
func (s *watchStream) overSocket(ctx context.Context, run func(ctx context.Context) error) error {
	var err error
	websocket.Handler(func(ws *websocket.Conn) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		// Messages of the client are ignored; only the end of the connection
		// matters.
		go func() {
			defer cancel()
			_, _ = io.Copy(io.Discard, ws)
		}()
		s.emit = func(frame [][]byte) error {
			s.progress.Began(s.e.Clock)
			return message(ws, frame, s.out.media)
		}
		s.flush = func() error {
			events, bytes := s.sent.report(s.counts)
			s.progress.Ended(events, bytes, s.rev)
			return nil
		}
		err = run(ctx)
		_ = ws.Close()
	}).ServeHTTP(s.w, s.req)
	return err
}

// message sends a frame as a message.
func message(ws *websocket.Conn, frame [][]byte, m media) error {
	whole := slices.Concat(frame...)
	ws.PayloadType = websocket.BinaryFrame
	switch m {
	case mediaJSON:
		ws.PayloadType = websocket.TextFrame
	case mediaProtobuf:
		whole = whole[lengthSize:]
	}
	_, err := ws.Write(whole)
	return err
}

// lengthSize is the size of the length in front of each protobuf frame.
const lengthSize = 4
