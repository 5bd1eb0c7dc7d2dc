package kubelet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gorilla/websocket"
	"golang.org/x/time/rate"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/kanzen-io/kanzen/internal/wire/spdy"
	"github.com/kanzen-io/kanzen/internal/wire/upgrade"
)

// pieceSize is how much is passed on at once. Kubelets write as much.
const pieceSize = 32 << 10

// pieces are buffers for one piece, with room in front for the head of a frame. They hold no state.
var pieces = sync.Pool{New: func() any { return new([pieceRoom + pieceSize]byte) }}

const pieceRoom = 8

// session is a command whose client speaks websocket and whose kubelet speaks SPDY. Two goroutines serve it: one takes
// messages of the client and writes frames, the other takes frames and writes messages. Each waits for the side that it
// writes to, so that what is not read is not sent.
type session struct {
	ctx     context.Context //nolint:containedctx // of the request
	sock    *socket
	kubelet *frames
	// streams are the numbers of the SPDY streams by channel; 0: the channel is not used.
	streams [channelCount]uint32
	// toClient and toKubelet bound what each side is sent; nil does not.
	toClient, toKubelet *rate.Limiter

	// stdinClosed is set when no more may be sent, by whichever side ended it.
	stdinClosed atomic.Bool
	clientGone  atomic.Bool
	// What the reader of frames knows.
	ended  [channelCount]bool
	status []byte // what came over the error stream
}

// translate serves a command over a websocket. The client learns errors through the error channel, as it does from
// kube-apiserver: a websocket that is refused is taken for one that is not supported.
func (s *Server) translate(w http.ResponseWriter, r *http.Request, u *url.URL, c channels) error {
	sock, err := s.accept(w, r, protocolSocket)
	if err != nil {
		count(s.metrics.translated, http.StatusBadRequest)
		return nil // answered
	}
	defer sock.Close()
	if sock.WriteMessage(websocket.BinaryMessage, []byte{c.first()}) != nil { // tells the client that the connection stands
		return nil
	}
	e := &session{ctx: r.Context(), sock: sock, toClient: upgrade.NewLimit(s.cfg.BytesPerSecond), toKubelet: upgrade.NewLimit(s.cfg.BytesPerSecond)}
	b, err := s.openCommand(r.Context(), u)
	if r.Context().Err() != nil {
		sock.bye(websocket.CloseGoingAway, "the server is shutting down")
		if err == nil {
			_ = b.Close()
		}
		return nil
	}
	if err != nil {
		count(s.metrics.translated, e.finish(err))
		sock.partingTime()
		sock.discard()
		return nil
	}
	if err := e.open(b, c); err != nil {
		_ = b.Close()
		count(s.metrics.translated, e.finish(err))
		return nil
	}
	if code := e.run(); code != 0 {
		count(s.metrics.translated, code)
	}
	return nil
}

// first returns the first channel that the server writes to.
func (c channels) first() byte {
	switch {
	case c[channelStdout]:
		return channelStdout
	case c[channelStderr]:
		return channelStderr
	}
	return channelError
}

// openCommand connects to a kubelet for a command.
func (s *Server) openCommand(ctx context.Context, u *url.URL) (*upgrade.Backend, error) {
	req, err := streamRequest(ctx, u, protocolSPDY)
	if err != nil {
		return nil, err
	}
	b, err := s.kubelets.Send(req, s.kubelets.Answer)
	if err != nil {
		return nil, err
	}
	if err := checkSwitched(b); err != nil {
		_ = b.Close()
		return nil, err
	}
	if got := b.Response.Header.Get(headerProtocol); got != protocolSPDY {
		_ = b.Close()
		return nil, fmt.Errorf("unable to upgrade connection: the kubelet answered with protocol %q", got)
	}
	return b, nil
}

// open opens the streams. Nothing waits for the kubelet to accept them: frames of one stream arrive in order.
func (e *session) open(conn io.WriteCloser, c channels) error {
	e.kubelet = &frames{conn: conn}
	var opener spdy.Opener
	var b []byte
	names := [channelCount]string{"stdin", "stdout", "stderr", "error", "resize"}
	for _, channel := range []int{channelError, channelStdin, channelStdout, channelStderr, channelResize} {
		if c[channel] {
			b, e.streams[channel] = opener.Open(b, http.Header{"Streamtype": {names[channel]}})
		}
	}
	return e.kubelet.write(b)
}

// run serves the session and returns the status that it ended with, 0 if the client has gone.
func (e *session) run() int {
	from := e.kubelet.conn.(io.Reader)
	stop := context.AfterFunc(e.ctx, func() {
		e.sock.bye(websocket.CloseGoingAway, "the server is shutting down")
		_ = e.sock.Close()
		_ = e.kubelet.conn.Close()
	})
	defer stop()
	var client sync.WaitGroup
	client.Go(func() {
		e.fromClient()
		e.clientGone.Store(true)
		_ = e.kubelet.conn.Close()
	})
	endPings := e.kubelet.keepAlive()
	err := e.fromKubelet(from)
	code := 0
	if !e.clientGone.Load() && e.ctx.Err() == nil {
		code = e.finish(e.result(err))
	}
	_ = e.kubelet.conn.Close()
	e.sock.partingTime()
	client.Wait()
	endPings()
	return code
}

// fromClient passes on what the client sends, until it is gone.
func (e *session) fromClient() {
	for {
		_, message, err := e.sock.NextReader()
		if err != nil {
			return
		}
		e.sock.touch()
		if err := e.fromMessage(message); err != nil {
			return
		}
	}
}

// fromMessage passes on a message. An error means that the client broke the protocol or is gone; what the kubelet does
// not take is dropped, since the client is to read the result first.
func (e *session) fromMessage(message io.Reader) error {
	piece := pieces.Get().(*[pieceRoom + pieceSize]byte)
	defer pieces.Put(piece)
	head := piece[:1]
	if _, err := io.ReadFull(message, head); err != nil {
		return ignoreEOF(err)
	}
	channel := head[0]
	switch {
	case channel == channelClose:
		if _, err := io.ReadFull(message, head); err != nil {
			return errors.New("a close without a channel")
		}
		if head[0] == channelStdin {
			e.closeStdin()
		}
		return nil
	case channel != channelStdin && channel != channelResize, e.streams[channel] == 0:
		return nil // NextReader skips the rest
	}
	for {
		n, err := message.Read(piece[pieceRoom:])
		if n > 0 && !(channel == channelStdin && e.stdinClosed.Load()) {
			if e.toKubelet != nil && e.wait(e.toKubelet, n) != nil {
				return e.ctx.Err()
			}
			_ = e.kubelet.data(e.streams[channel], piece, n)
		}
		if err != nil {
			return ignoreEOF(err)
		}
	}
}

func ignoreEOF(err error) error {
	if err == io.EOF {
		return nil
	}
	return err
}

// wait waits until a limit allows n bytes.
func (e *session) wait(limit *rate.Limiter, n int) error {
	for n > 0 {
		m := min(n, limit.Burst())
		if err := limit.WaitN(e.ctx, m); err != nil {
			return err
		}
		n -= m
	}
	return nil
}

// closeStdin ends what the command reads.
func (e *session) closeStdin() {
	if stream := e.streams[channelStdin]; stream != 0 && !e.stdinClosed.Swap(true) {
		_ = e.kubelet.write(spdy.AppendData(nil, stream, 0, true))
	}
}

// fromKubelet passes on what the kubelet sends until the command has ended, or until an error.
func (e *session) fromKubelet(from io.Reader) error {
	for !e.over() {
		h, err := spdy.ReadHead(from)
		if err != nil {
			return err
		}
		switch h.Type {
		case spdy.Data:
			if err := e.fromFrame(from, h); err != nil {
				return err
			}
		case spdy.RstStream:
			h.Fin = true
		case spdy.Ping:
			if h.ID%2 == 0 { // its own, not an answer
				e.kubelet.control(spdy.AppendPing(nil, h.ID))
			}
		case spdy.GoAway: // what is open goes on
		}
		if h.Fin {
			e.end(h.Stream)
		}
	}
	return nil
}

// over reports whether all output and the result have come.
func (e *session) over() bool {
	for _, channel := range []int{channelStdout, channelStderr, channelError} {
		if e.streams[channel] != 0 && !e.ended[channel] {
			return false
		}
	}
	return true
}

// channelOf returns the channel of a stream; -1: there is none.
func (e *session) channelOf(stream uint32) int {
	for channel, s := range e.streams {
		if s == stream && s != 0 {
			return channel
		}
	}
	return -1
}

func (e *session) end(stream uint32) {
	switch channel := e.channelOf(stream); channel {
	case -1:
	case channelStdin: // nobody reads it any more
		e.kubelet.background.Go(e.closeStdin)
	default:
		e.ended[channel] = true
	}
}

// maxStatus bounds the result of a command.
const maxStatus = 64 << 10

// fromFrame passes on the data of a frame.
func (e *session) fromFrame(from io.Reader, h spdy.Head) error {
	piece := pieces.Get().(*[pieceRoom + pieceSize]byte)
	defer pieces.Put(piece)
	channel := e.channelOf(h.Stream)
	for left := h.Length; left > 0; {
		n := min(left, pieceSize)
		piece[0] = byte(channel)
		if _, err := io.ReadFull(from, piece[1:1+n]); err != nil {
			return err
		}
		left -= n
		switch channel {
		case channelStdout, channelStderr:
			if e.toClient != nil && e.wait(e.toClient, n) != nil {
				return e.ctx.Err()
			}
			e.sock.touch()
			if err := e.sock.WriteMessage(websocket.BinaryMessage, piece[:1+n]); err != nil {
				e.clientGone.Store(true)
				return err
			}
		case channelError:
			if len(e.status)+n > maxStatus {
				return fmt.Errorf("error stream protocol error: more than %d bytes", maxStatus)
			}
			e.status = append(e.status, piece[1:1+n]...)
		}
	}
	return nil
}

// result returns what the command ended with. err is that of the connection, which counts only if the kubelet has not
// told the result before: it may close the connection with input unread, and what it sends last is lost then.
func (e *session) result(err error) error {
	switch {
	case len(e.status) > 0 && (err == nil || json.Valid(e.status)):
		return statusError(e.status)
	case err == nil, err == io.EOF, errors.Is(err, io.ErrUnexpectedEOF):
		return errors.New("the kubelet closed the connection before the command had ended")
	}
	return fmt.Errorf("error reading from error stream: %w", err)
}

// finish tells the client the result, and returns its code.
func (e *session) finish(result error) int {
	st := resultStatus(result)
	text, err := json.Marshal(st)
	if err != nil {
		text = nil // cannot be: a Status has nothing that JSON has not
	}
	_ = e.sock.SetWriteDeadline(time.Now().Add(lastWord))
	if e.sock.WriteMessage(websocket.BinaryMessage, append([]byte{channelError}, text...)) == nil {
		e.sock.bye(websocket.CloseNormalClosure, "")
	}
	return codeOf(st)
}

// checkSwitched returns the error of a kubelet that did not change to SPDY.
func checkSwitched(b *upgrade.Backend) error {
	if b.Switched() && speaksSPDY(b.Response.Header) {
		return nil
	}
	if b.Switched() {
		return errors.New("unable to upgrade connection: the kubelet switched to another protocol")
	}
	_ = b.SetReadDeadline(time.Now().Add(lastWord))
	text, err := io.ReadAll(io.LimitReader(b.Response.Body, maxError))
	if err != nil && len(text) == 0 {
		return errors.New("unable to upgrade connection: unable to read error from server response")
	}
	if b.Response.StatusCode < http.StatusBadRequest {
		return apierrors.NewInternalError(fmt.Errorf("invalid upgrade response: status code %d", b.Response.StatusCode))
	}
	return fmt.Errorf("unable to upgrade connection: %s", refusalText(text))
}
