package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/kanzen-io/kanzen/bench/side"
)

// flood is a number of connections, each of which sends its next request as
// soon as the last is answered.
type flood struct {
	clients int
	polite  bool // when refused, it waits for as long as it is told to
}

func (f flood) String() string {
	manners := "comes again at once when refused (hostile)"
	if f.polite {
		manners = "waits for what Retry-After says when refused (polite)"
	}
	return fmt.Sprintf("%d flooding connections, each of which %s", f.clients, manners)
}

// rates say what becomes of a flood's requests, in a second.
type rates struct{ Served, Refused, Failed float64 }

// flooding is a flood that has been started.
type flooding struct {
	cmd    *exec.Cmd
	output *bufio.Reader
}

// start starts the flood in a process of its own and waits until it is
// connected. The process is behind all others in the machine's own queue: what
// it does to the server is measured, not what it does to the machine.
func (f flood) start(ctx context.Context, url string) (*flooding, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, "nice", "-n", "19", self, "-flood", url, "-clients", strconv.Itoa(f.clients),
		"-polite="+strconv.FormatBool(f.polite))
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	s := &flooding{cmd, bufio.NewReader(out)}
	if _, err := s.output.ReadString('\n'); err != nil {
		_, _ = s.stop() // the error is that it has ended
		return nil, fmt.Errorf("the flood: %w", err)
	}
	return s, nil
}

// stop ends the flood and returns what it says of itself.
func (s *flooding) stop() (r rates, err error) {
	_ = s.cmd.Process.Signal(syscall.SIGTERM) // if it has ended already, it has not said anything
	err = json.NewDecoder(s.output).Decode(&r)
	if ended := s.cmd.Wait(); err == nil {
		err = ended
	}
	if err != nil {
		return r, fmt.Errorf("the flood: %w", err)
	}
	return r, nil
}

// run is the flood: it says when it is connected, and when it is told to end,
// what became of its requests.
func (f flood) run(ctx context.Context, url string) error {
	return json.NewEncoder(os.Stdout).Encode(f.send(ctx, url, func() { fmt.Println("connected") }))
}

// send sends requests until the context ends, and calls connected when all
// connections are there: what came before does not count.
func (f flood) send(ctx context.Context, url string, connected func()) rates {
	var served, refused, failed atomic.Int64
	var began time.Time
	var wg, connecting sync.WaitGroup
	connecting.Add(f.clients)
	wg.Go(func() {
		connecting.Wait()
		served.Store(0)
		refused.Store(0)
		failed.Store(0)
		began = time.Now()
		connected()
	})
	for n := range f.clients {
		wg.Go(func() {
			c := side.NewClient(url, "flood")
			defer c.Close()
			_ = c.Do(ctx, side.Request{Method: http.MethodGet, Path: "/version"}, io.Discard) // it is tried again below
			connecting.Done()
			for ctx.Err() == nil {
				err := c.Do(ctx, write(fmt.Sprintf("%s/c%d", listed, n%objects)), io.Discard)
				switch {
				case ctx.Err() != nil:
				case err == nil:
					served.Add(1)
				case side.Code(err) == http.StatusTooManyRequests:
					refused.Add(1)
				default:
					failed.Add(1)
				}
				if e, ok := errors.AsType[*side.StatusError](err); ok && f.polite {
					_ = side.Sleep(ctx, e.RetryAfter) // the loop sees if it is to end
				}
			}
		})
	}
	wg.Wait()
	seconds := time.Since(began).Seconds()
	return rates{float64(served.Load()) / seconds, float64(refused.Load()) / seconds, float64(failed.Load()) / seconds}
}

// write changes a config map.
func write(path string) side.Request {
	return side.Request{Method: http.MethodPatch, Path: path, ContentType: "application/merge-patch+json",
		Body: fmt.Sprintf(`{"data":{"n":"%d"}}`, time.Now().UnixNano())}
}
