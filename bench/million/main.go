// Command million measures a server on Pebble that holds very many ConfigMaps of 1 KB: its start, its first list, and its memory. See README.md.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kanzen-io/kanzen/bench/side"
	"github.com/kanzen-io/kanzen/internal/store/kv"
	"github.com/kanzen-io/kanzen/internal/store/pebble"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := command(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "million:", err)
		os.Exit(1)
	}
}

const (
	namespace = "default"
	path      = "/api/v1/namespaces/" + namespace + "/configmaps"
)

func command(ctx context.Context) error {
	kanzen := flag.String("kanzen", "", "a kanzen binary; none: it is built from this repository")
	objects := flag.Int("objects", 1_000_000, "ConfigMaps")
	size := flag.Int("size", 750, "bytes of the text of each; with its metadata an object has about 250 more")
	writes := flag.Int("writes", 2000, "creations, one after another, whose time is measured")
	rest := flag.Duration("rest", 24*time.Second, "how long the server rests before memory is read")
	flag.Parse()
	p, err := side.Build(ctx, *kanzen, "", side.Pebble)
	if err != nil {
		return err
	}
	s, err := side.Start(ctx, side.Pebble, p, side.Options{})
	if err != nil {
		return err
	}
	defer s.Stop()
	c := s.Client()
	first := side.Sealed("v1", "ConfigMap", configMap(0, *size))
	err = c.Do(ctx, side.Request{Method: http.MethodPost, Path: path, ContentType: side.Protobuf, Accept: side.Protobuf, Body: first}, io.Discard)
	c.Close()
	if err != nil {
		return err
	}
	began := time.Now()
	if err := s.Offline(ctx, func(dir string) error { return fill(ctx, filepath.Join(dir, "pebble"), *objects, *size) }); err != nil {
		return err
	}
	fmt.Printf("%d objects, written in %v\n", *objects, time.Since(began).Round(time.Second))
	return measure(ctx, s, *writes, *size, *rest)
}

func name(i int) string { return fmt.Sprintf("o-%08d", i) }

func configMap(i, size int) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name(i), Namespace: namespace, Labels: map[string]string{"app": "million"}},
		Data: map[string]string{"value": side.Text(i, size)}}
}

// fill writes copies of the first object, under other names and with other texts of the same length.
func fill(ctx context.Context, dir string, objects, size int) (err error) {
	db, err := pebble.Open(pebble.Config{Dir: dir, KeepEnded: true})
	if err != nil {
		return err
	}
	defer func() {
		if failed := db.Close(); err == nil {
			err = failed
		}
	}()
	const prefix, together = "/registry/configmaps/" + namespace + "/", 1000
	var like string
	if _, err := db.Range(ctx, kv.Range{Key: prefix + name(0)}, func(k kv.KeyValue) bool { like = string(k.Value); return true }); err != nil {
		return err
	}
	text := side.Text(0, size)
	if !strings.Contains(like, text) {
		return fmt.Errorf("%s is not stored as it was sent", name(0))
	}
	for from := 1; from < objects; from += together {
		var t kv.Txn
		for i := from; i < min(from+together, objects); i++ {
			t.Then = append(t.Then, kv.Op{Key: prefix + name(i), Value: []byte(strings.NewReplacer(name(0), name(i), text, side.Text(i, size)).Replace(like))})
		}
		if _, err := db.Commit(ctx, t); err != nil {
			return err
		}
	}
	head, err := db.Head(ctx)
	if err != nil {
		return err
	}
	return db.Compact(ctx, head) // no server would still have to record all that for its history
}

func measure(ctx context.Context, s *side.Side, writes, size int, rest time.Duration) error {
	for range 2 { // the first start after such a fill tidies up
		if err := s.Restart(ctx); err != nil {
			return err
		}
	}
	fmt.Printf("ready after %v\n", s.Ready.Round(time.Millisecond))
	c := s.Client()
	defer c.Close()
	if err := timed(ctx, c, "first GET", path+"/"+name(1)); err != nil {
		return err
	}
	if err := memory(ctx, s, "none read", rest); err != nil {
		return err
	}
	if err := timed(ctx, c, "first page of 500", path+"?limit=500"); err != nil {
		return err
	}
	if err := timed(ctx, c, "first list by a label that none has, which reads all", path+"?labelSelector=app%3Dnone"); err != nil {
		return err
	}
	if err := memory(ctx, s, "all in the view", rest); err != nil {
		return err
	}
	var took []time.Duration
	for i := range writes {
		r := side.Request{Method: http.MethodPost, Path: path, ContentType: side.Protobuf, Accept: side.Protobuf, Body: side.Sealed("v1", "ConfigMap", configMap(90_000_000+i, size))}
		began := time.Now()
		if err := c.Do(ctx, r, io.Discard); err != nil {
			return err
		}
		took = append(took, time.Since(began))
	}
	fmt.Printf("creations one after another: median %v, 99%% within %v\n", side.Percentile(took, 50).Round(10*time.Microsecond), side.Percentile(took, 99).Round(10*time.Microsecond))
	return nil
}

func timed(ctx context.Context, c *side.Client, what, path string) error {
	began := time.Now()
	if err := c.Do(ctx, side.Request{Method: http.MethodGet, Path: path}, io.Discard); err != nil {
		return err
	}
	fmt.Printf("%s: %v\n", what, time.Since(began).Round(100*time.Microsecond))
	return nil
}

func memory(ctx context.Context, s *side.Side, what string, rest time.Duration) error {
	if err := side.Sleep(ctx, rest); err != nil {
		return err
	}
	rss, err := s.RSS()
	if err != nil {
		return err
	}
	anonymous, err := s.Anonymous()
	if err != nil {
		return err
	}
	fmt.Printf("resident memory, %s: %.0f MiB, of which %.0f are no mapped files\n", what, rss, anonymous)
	return nil
}
