package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kanzen-io/kanzen/bench/side"
)

// retry is how long a client waits before it goes to the other server.
const retry = 50 * time.Millisecond

// client lists and watches, as an informer does.
type client struct {
	servers []*side.Side
	at      int // the server it uses; only run uses it

	bytes atomic.Int64
	mark  atomic.Int64 // the newest it has seen

	mu    sync.Mutex
	lists int             // guarded by mu
	wrong int             // events missed, doubled or out of order; guarded by mu
	gaps  []time.Duration // from the end of a watch to the next event; guarded by mu
}

var errTooOld = errors.New("the revision is too old")

func (c *client) run(ctx context.Context) {
	var rev string
	var ended time.Time // when the last watch ended; zero: events have come since
	for ctx.Err() == nil {
		conn := c.servers[c.at].Client()
		var err error
		if rev == "" {
			rev, err = c.list(ctx, conn)
		}
		if err == nil {
			err = c.watch(ctx, conn, &rev, &ended)
		}
		conn.Close()
		if errors.Is(err, errTooOld) || side.Code(err) == http.StatusGone {
			rev = ""
		}
		c.at = 1 - c.at
		_ = side.Sleep(ctx, retry) // the loop looks at ctx
	}
}

// object is what a client reads of an object.
type object struct {
	Metadata struct{ Name, ResourceVersion string }
	Data     struct{ Mark string }
	Code     int // of a Status
}

// list reads everything, and the mark in it.
func (c *client) list(ctx context.Context, conn *side.Client) (rev string, err error) {
	res, err := conn.Open(ctx, side.Request{Method: http.MethodGet, Path: path})
	if err != nil {
		return "", err
	}
	defer res.Body.Close()
	var l struct {
		Metadata struct{ ResourceVersion string }
		Items    []object
	}
	if err := json.NewDecoder(&counting{res.Body, &c.bytes}).Decode(&l); err != nil {
		return "", err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lists++
	for _, o := range l.Items {
		if n, err := strconv.ParseInt(o.Data.Mark, 10, 64); err == nil {
			c.mark.Store(n)
		}
	}
	return l.Metadata.ResourceVersion, nil
}

// watch watches from a revision, which it moves on, until the watch ends.
func (c *client) watch(ctx context.Context, conn *side.Client, rev *string, ended *time.Time) error {
	defer func() {
		if ended.IsZero() {
			*ended = time.Now()
		}
	}()
	res, err := conn.Open(ctx, side.Request{Method: http.MethodGet, Path: path + "?watch=1&allowWatchBookmarks=true&resourceVersion=" + *rev})
	if err != nil {
		return err
	}
	defer res.Body.Close()
	lines := bufio.NewReader(&counting{res.Body, &c.bytes})
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return err
		}
		var e struct {
			Type   string
			Object object
		}
		if err := json.Unmarshal(line, &e); err != nil {
			return err
		}
		if e.Type == "ERROR" {
			if e.Object.Code == http.StatusGone {
				return errTooOld
			}
			return errors.New(string(line))
		}
		*rev = e.Object.Metadata.ResourceVersion
		if e.Type != "BOOKMARK" {
			c.saw(e.Object, ended)
		}
	}
}

// saw checks that an event is the next one.
func (c *client) saw(o object, ended *time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n, err := strconv.ParseInt(o.Data.Mark, 10, 64)
	if last := c.mark.Load(); err != nil || n != last+1 {
		c.wrong++
	}
	c.mark.Store(n)
	if !ended.IsZero() {
		c.gaps = append(c.gaps, time.Since(*ended))
		*ended = time.Time{}
	}
}

// counting counts what is read.
type counting struct {
	io.Reader
	n *atomic.Int64
}

func (c *counting) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.n.Add(int64(n))
	return n, err
}
