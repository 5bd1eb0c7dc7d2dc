package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"os"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/kanzen-io/kanzen/internal/recorder/v1alpha1"
)

func topCommand() *cobra.Command {
	var a asking
	window, once := 5*time.Second, false
	cmd := &cobra.Command{
		Use:   "top",
		Short: "Show live who sends which requests to the server",
		Long: `Shows requests by client, user or resource with their rates and latencies, the
slowest webhooks, and the watches. Rates of reads are estimates from the flight
recorder's sample.

Keys: s changes the sort order, g changes the grouping, up and down choose a line,
enter opens it, q quits.`,
		Args: cobra.NoArgs,
	}
	a.add(cmd.Flags(), false)
	cmd.Flags().DurationVar(&window, "window", window, "Time over which rates and latencies are computed.")
	cmd.Flags().BoolVar(&once, "once", false, "Show one window and exit. This is the default without a terminal and with -o json.")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		s, err := a.open()
		if err != nil {
			return err
		}
		t := &top{asker: s, window: window, out: cmd.OutOrStdout(), groupBy: 1}
		f, terminal := t.out.(*os.File)
		terminal = terminal && term.IsTerminal(int(f.Fd())) && term.IsTerminal(int(os.Stdin.Fd()))
		if a.output == "json" || once || !terminal {
			return t.once(cmd.Context(), a.output == "json")
		}
		return t.live(cmd.Context(), f)
	}
	return cmd
}

// top shows what a server does.
type top struct {
	*asker
	window time.Duration
	out    io.Writer

	seen     []seen // of the window, oldest first
	bytes    int    // of the texts in seen
	watches  []v1alpha1.Watch
	webhooks []v1alpha1.WebhookStat
	trouble  error

	groupBy, sortBy, chosen int
	open                    string // the key that was opened; "": none
}

const recorderPath = "/apis/flightrecorder.kanzen.io/v1alpha1/"

// follow sends the requests that the server keeps from now on.
func (t *top) follow(ctx context.Context, to chan<- *v1alpha1.Record) error {
	_, version, err := items[v1alpha1.Request](ctx, t.asker, recorderPath+"requests?limit=1&fieldSelector=verb%3Dnone")
	if err != nil {
		var refused *refusedError
		if errors.As(err, &refused) && refused.code == http.StatusNotFound {
			return errors.New("the server has no flight recorder (--flight-recorder-memory)")
		}
		return err
	}
	body, err := t.send(ctx, http.MethodGet, recorderPath+"requests?watch=1&resourceVersion="+url.QueryEscape(version), "", nil)
	if err != nil {
		return err
	}
	defer body.Close()
	bound := &bounded{Reader: body}
	events := json.NewDecoder(bound)
	for {
		var e struct {
			Type   string
			Object v1alpha1.Request
		}
		bound.left = maxItem
		if err := events.Decode(&e); err != nil {
			return err
		}
		if e.Type != "ADDED" {
			return errors.New("the server ended the watch")
		}
		select {
		case to <- &e.Object.Record:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// look asks for what has no log.
func (t *top) look(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, lookFor)
	defer cancel()
	var noWatches, noStats error
	t.watches, _, noWatches = items[v1alpha1.Watch](ctx, t.asker, recorderPath+"watches")
	t.webhooks, _, noStats = items[v1alpha1.WebhookStat](ctx, t.asker, recorderPath+"webhookstats")
	t.trouble = errors.Join(noWatches, noStats)
}

// add takes a request up that has come now.
func (t *top) add(rec *v1alpha1.Record, now time.Time) {
	s := seenOf(rec, now)
	if len(t.seen) < maxSeen && t.bytes+s.size() <= maxSeenBytes {
		t.seen = append(t.seen, s)
		t.bytes += s.size()
	}
}

// forget drops what is older than the window. It goes by when requests came here, whatever the server's clock says.
func (t *top) forget(now time.Time) {
	n := 0
	for n < len(t.seen) && now.Sub(t.seen[n].came) > t.window {
		t.bytes -= t.seen[n].size()
		n++
	}
	t.seen = append(t.seen[:0:0], t.seen[n:]...)
}

// once collects for a window and prints.
func (t *top) once(ctx context.Context, asJSON bool) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	records, failed := make(chan *v1alpha1.Record), make(chan error, 1)
	go func() { failed <- t.follow(ctx, records) }()
	end := time.After(t.window)
	for {
		select {
		case rec := <-records:
			t.add(rec, time.Now())
			continue
		case err := <-failed:
			return err
		case <-end:
		}
		break
	}
	if t.look(ctx); t.trouble != nil {
		return t.trouble
	}
	if asJSON {
		out := map[string]any{"window": t.window.String(), "watches": t.watches, "webhooks": t.webhooks}
		for n, name := range groupings {
			t.groupBy = n
			out[name] = t.rows()
		}
		return printJSON(t.out, out)
	}
	for _, line := range t.screen(200, 1000) {
		tell(t.out, "%s\n", line)
	}
	return nil
}

// live shows the screen until the user ends it.
func (t *top) live(ctx context.Context, out *os.File) error {
	was, err := term.MakeRaw(int(os.Stdin.Fd()))
	if err != nil {
		return err
	}
	defer func() { _ = term.Restore(int(os.Stdin.Fd()), was) }()
	_, _ = io.WriteString(out, "\x1b[?1049h\x1b[?25l") // the other screen, without a cursor
	defer func() { _, _ = io.WriteString(out, "\x1b[?25h\x1b[?1049l") }()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	records, failed, keys := make(chan *v1alpha1.Record), make(chan error, 1), make(chan string)
	go func() { failed <- t.follow(ctx, records) }()
	go readKeys(ctx, os.Stdin, keys)
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	t.look(ctx)
	for {
		select {
		case rec := <-records:
			t.add(rec, time.Now())
			continue
		case err := <-failed:
			return err
		case k := <-keys:
			if !t.press(k) {
				return nil
			}
		case <-ticker.C:
			t.look(ctx)
		case <-ctx.Done():
			return nil
		}
		t.forget(time.Now())
		t.draw(out)
	}
}

func (t *top) draw(out *os.File) {
	width, height, err := term.GetSize(int(out.Fd()))
	if err != nil || width <= 0 || height <= 0 { // a terminal that does not know its size says 0
		width, height = 80, 24
	}
	b := bufio.NewWriter(out)
	_, _ = b.WriteString("\x1b[H")
	for _, line := range t.screen(width, height) {
		_, _ = b.WriteString(line + "\x1b[K\r\n")
	}
	_, _ = b.WriteString("\x1b[J")
	_ = b.Flush()
}

// readKeys sends the keys that are pressed.
func readKeys(ctx context.Context, in io.Reader, to chan<- string) {
	b := make([]byte, 16)
	for {
		n, err := in.Read(b)
		if err != nil {
			return
		}
		select {
		case to <- string(b[:n]):
		case <-ctx.Done():
			return
		}
	}
}

// press acts on a key; false ends.
func (t *top) press(key string) bool {
	switch key {
	case "q", "\x03", "\x04":
		return false
	case "s":
		t.sortBy = (t.sortBy + 1) % len(sortings)
	case "g":
		t.groupBy, t.chosen, t.open = (t.groupBy+1)%len(groupings), 0, ""
	case "\x1b[A", "k":
		t.chosen = max(0, t.chosen-1)
	case "\x1b[B", "j":
		t.chosen++
	case "\r":
		if rows := t.rows(); t.open == "" && len(rows) > 0 {
			t.open = rows[min(t.chosen, len(rows)-1)].Key
			break
		}
		t.open = ""
	case "\x1b", "\x7f":
		t.open = ""
	}
	return true
}
