package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// flood asks one plane while nothing else happens, and while another is flooded, in one way after another. Who asks is a process of its
// own, and so are those who flood, which yield the processors to the server and to it: what it waits for is the server.
func (b *bench) flood(ctx context.Context) error {
	quiet, err := b.kubeconfig(ctx, 0)
	if err != nil {
		return err
	}
	loud, err := b.kubeconfig(ctx, 1)
	if err != nil {
		return err
	}
	before, err := b.ask(ctx, quiet)
	if err != nil {
		return err
	}
	fmt.Printf("a request to one plane: %s\n", quantiles(before))
	for _, f := range floods {
		during, rate, err := b.flooded(ctx, f.name, loud, func() ([]time.Duration, error) { return b.ask(ctx, quiet) })
		if err != nil {
			return err
		}
		fmt.Printf("  while another is flooded with %s (%.0f a second): %s\n", f.name, rate, quantiles(during))
	}
	return nil
}

// flooded asks while another process floods, and returns how many requests a second that one had answered.
func (b *bench) flooded(ctx context.Context, name, kubeconfig string, ask func() ([]time.Duration, error)) (took []time.Duration, rate float64, err error) {
	var out bytes.Buffer
	flooder, err := self(ctx, "nice", "-n", "10", "", "-flood", name, "-kubeconfig", kubeconfig)
	if err != nil {
		return nil, 0, err
	}
	flooder.Stdout = &out
	began := time.Now()
	if err := flooder.Start(); err != nil {
		return nil, 0, err
	}
	time.Sleep(time.Second) // until it is under way
	took, err = ask()
	_ = flooder.Process.Signal(syscall.SIGTERM)
	if err := flooder.Wait(); err != nil {
		return nil, 0, err
	}
	var answered int64
	if err == nil {
		err = json.Unmarshal(out.Bytes(), &answered)
	}
	return took, float64(answered) / time.Since(began).Seconds(), err
}

// self is a command that runs this program; an empty argument stands for its path.
func self(ctx context.Context, args ...string) (*exec.Cmd, error) {
	path, err := os.Executable()
	if err != nil {
		return nil, err
	}
	for n := range args {
		if args[n] == "" {
			args[n] = path
		}
	}
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Stderr = os.Stderr
	return cmd, nil
}

// kubeconfig writes the kubeconfig of a plane to a file.
func (b *bench) kubeconfig(ctx context.Context, n int) (string, error) {
	data, err := b.kubeconfigOf(ctx, n)
	if err != nil {
		return "", err
	}
	path := filepath.Join(b.dir, name(n)+".kubeconfig")
	return path, os.WriteFile(path, data, 0o600)
}

// ask has another process ask a plane, and returns how long each request took.
func (b *bench) ask(ctx context.Context, kubeconfig string) (took []time.Duration, err error) {
	asker, err := self(ctx, "", "-ask", "-kubeconfig", kubeconfig)
	if err != nil {
		return nil, err
	}
	out, err := asker.Output()
	if err != nil {
		return nil, err
	}
	return took, json.Unmarshal(out, &took)
}

// one is such a process: it asks the plane of a kubeconfig, or floods it.
func one(ctx context.Context, kubeconfig string, ask bool, flood string) error {
	data, err := os.ReadFile(kubeconfig)
	if err != nil {
		return err
	}
	c, err := newClient(data)
	if err != nil {
		return err
	}
	if ask {
		return asks(ctx, c)
	}
	return floodWith(ctx, c, flood)
}

// asks prints how long each of its requests took.
func asks(ctx context.Context, c *client) error {
	var took []time.Duration
	for range 1000 {
		began := time.Now()
		if err := c.do(ctx, "GET", namespaces, nil, nil); err != nil {
			return err
		}
		took = append(took, time.Since(began))
		time.Sleep(4 * time.Millisecond)
	}
	return json.NewEncoder(os.Stdout).Encode(took)
}

// flooders is how many clients flood a plane.
const flooders = 64

// floodWith floods a plane until it is told to end, and prints how many requests were answered.
func floodWith(ctx context.Context, c *client, name string) error {
	var wg sync.WaitGroup
	var answered atomic.Int64
	for _, f := range floods {
		if f.name != name {
			continue
		}
		for n := range flooders {
			wg.Go(func() {
				for i := 0; ctx.Err() == nil; i++ {
					if f.do(ctx, c, n, i) == nil {
						answered.Add(1)
					}
				}
			})
		}
	}
	wg.Wait()
	return json.NewEncoder(os.Stdout).Encode(answered.Load())
}

// floods are the ways to flood a plane. do is one request: the i-th of the n-th client.
var floods = []struct {
	name string
	do   func(ctx context.Context, c *client, n, i int) error
}{
	{"lists", func(ctx context.Context, c *client, _, _ int) error {
		return c.do(ctx, "GET", "/apis/rbac.authorization.k8s.io/v1/clusterroles", nil, nil)
	}},
	{"reads", func(ctx context.Context, c *client, _, _ int) error {
		return c.do(ctx, "GET", namespaces+"/default", nil, nil)
	}},
	{"writes", func(ctx context.Context, c *client, n, i int) error {
		return c.do(ctx, "POST", namespaces+"/default/configmaps", map[string]any{"metadata": map[string]any{"name": fmt.Sprintf("flood-%d-%d", n, i)},
			"data": map[string]any{"value": strings.Repeat("x", 1000)}}, nil)
	}},
	{"watches", func(ctx context.Context, c *client, _, _ int) error {
		return c.do(ctx, "GET", "/apis/rbac.authorization.k8s.io/v1/clusterroles?watch=true&timeoutSeconds=1", nil, new(string))
	}},
	{"definitions", func(ctx context.Context, c *client, n, i int) error {
		plural, kind := fmt.Sprintf("floods%dx%d", n, i), fmt.Sprintf("Flood%dx%d", n, i)
		return c.do(ctx, "POST", definitionsPath, definition(plural, kind), nil)
	}},
}
