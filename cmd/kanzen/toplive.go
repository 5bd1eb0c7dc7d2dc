package main

import (
	"bufio"
	"context"
	"io"
	"os"
	"time"

	"golang.org/x/term"

	"github.com/kanzen-io/kanzen/internal/observe/recorder/v1alpha1"
)

// retryEvery is how often top asks a server again that is away.
const retryEvery = time.Second

// live shows the screen until the user ends it.
func (t *top) live(ctx context.Context, out *os.File) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	records, failed := make(chan *v1alpha1.Record), make(chan error, 1)
	follow := func(after time.Duration) {
		if wait(ctx, after) {
			failed <- t.follow(ctx, records)
		}
	}
	looked, looking := make(chan state, 1), false
	look := func() {
		if !looking {
			looking = true
			go func(before state) { looked <- t.look(ctx, before) }(t.server)
		}
	}
	answered := make(chan *place, 1)

	was, err := term.MakeRaw(int(os.Stdin.Fd()))
	if err != nil {
		return err
	}
	defer func() { _ = term.Restore(int(os.Stdin.Fd()), was) }()
	_, _ = io.WriteString(out, "\x1b[?1049h\x1b[?25l") // the other screen, without a cursor
	defer func() { _, _ = io.WriteString(out, "\x1b[?25h\x1b[?1049l") }()
	go follow(0)
	pressed := make(chan string)
	go readKeys(ctx, os.Stdin, pressed)
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	there := false // the server has answered
	look()
	for {
		select {
		case rec := <-records:
			t.trouble, there = nil, true
			t.add(rec, time.Now())
			continue
		case err := <-failed:
			if !there {
				return err
			}
			t.trouble = err
			go follow(retryEvery)
		case s := <-looked:
			if looking = false; !t.paused {
				t.server = s
			}
			if s.trouble == nil {
				t.trouble, there = nil, true
			}
		case p := <-answered:
			if open := t.place(); open != nil && open.request == p.request {
				open.record, open.err = p.record, p.err
			}
		case k := <-pressed:
			for _, key := range keysOf(k) {
				if !t.press(key) {
					return nil
				}
			}
			if p := t.place(); p != nil && p.request != "" && p.record == nil {
				go func(name string) {
					rec, err := t.request(ctx, name)
					select {
					case answered <- &place{request: name, record: rec, err: err}:
					case <-ctx.Done():
					}
				}(p.request)
			}
		case <-ticker.C:
			look()
		case <-ctx.Done():
			return nil
		}
		t.pass(time.Now())
		t.draw(out)
	}
}

// wait returns false if the context has ended before the time has passed.
func wait(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}

func (t *top) draw(out *os.File) {
	width, height, err := term.GetSize(int(out.Fd()))
	if err != nil || width <= 0 || height <= 0 { // a terminal that does not know its size says 0
		width, height = 80, 24
	}
	b := bufio.NewWriter(out)
	_, _ = b.WriteString("\x1b[H")
	for n, l := range t.screen(width, height) {
		if n > 0 {
			_, _ = b.WriteString("\r\n")
		}
		_, _ = b.WriteString(l.text(t.colours) + "\x1b[K")
	}
	_, _ = b.WriteString("\x1b[J")
	_ = b.Flush()
}

// readKeys sends what the terminal sends.
func readKeys(ctx context.Context, in io.Reader, to chan<- string) {
	b := make([]byte, 256)
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
