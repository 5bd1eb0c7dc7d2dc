package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	mccontroller "sigs.k8s.io/multicluster-runtime/pkg/controller"

	"github.com/kanzen-io/kanzen/multicluster/internal/testserver"
)

var many = flag.Int("planes", 10, "how many planes TestMany has")

const database = "{apiVersion: example.com/v1, kind: Database, metadata: {name: db, namespace: default}, spec: {size: 3}}"

func TestMain(m *testing.M) {
	log.SetLogger(logr.Discard())
	m.Run()
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(text))
}

// TestMany has many planes with a database each, by one export, and measures the controller that comes to them.
func TestMany(t *testing.T) {
	s := testserver.Start(t, "--planes-awake=100000")
	config := s.Plane("vendor", "")
	testserver.Create(t, testserver.Client(t, config), read(t, "provider.yaml"))
	consumers := make([]client.Client, *many)
	var made sync.WaitGroup
	for worker := range 8 {
		made.Go(func() {
			for n := worker; n < *many; n += 8 {
				c := testserver.Client(t, s.Plane(fmt.Sprint("team-", n), ""))
				testserver.Bind(t, c, read(t, "consumer.yaml"))
				testserver.Create(t, c, database)
				consumers[n] = c
			}
		})
	}
	made.Wait()
	goroutines := runtime.NumGoroutine()
	ctx, cancel := context.WithCancel(t.Context())
	began, ended := time.Now(), make(chan error, 1)
	go func() { ended <- run(ctx, config, "databases", options(16)) }()
	for n, end := 0, began.Add(10*time.Minute); n < *many; {
		if isReady(t, consumers[n]) {
			n++
			continue
		}
		if time.Now().After(end) {
			t.Fatalf("the database of plane %d of %d is not ready", n, *many)
		}
		time.Sleep(5 * time.Millisecond)
	}
	took := time.Since(began)
	t.Logf("%d planes: all reconciled after %v; the controller has %d goroutines more than the test; its plane serves %d watches",
		*many, took.Round(time.Millisecond), runtime.NumGoroutine()-goroutines, watches(t, s))
	if n := watches(t, s); n != 3 { // of databases, of secrets, and of the planes
		t.Errorf("the controller has %d watches, want 3", n)
	}
	cancel()
	if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// options are those of a controller of which there are several in one process.
func options(workers int) mccontroller.Options {
	again := true
	return mccontroller.Options{MaxConcurrentReconciles: workers, SkipNameValidation: &again}
}

func isReady(t *testing.T, c client.Client) bool {
	t.Helper()
	db := testserver.Object(t, database)
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(db), db); err != nil {
		t.Fatal(err)
	}
	host, _, _ := unstructured.NestedString(db.Object, "status", "host")
	var secret corev1.Secret
	return host != "" && c.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: "db-password"}, &secret) == nil && len(secret.Data["password"]) > 0
}

// watches is how many watches the plane of the vendor serves.
func watches(t *testing.T, s *testserver.Server) int64 {
	t.Helper()
	o := testserver.Object(t, "{apiVersion: flightrecorder.kanzen.io/v1alpha1, kind: PlaneStat, metadata: {name: vendor}}")
	if err := testserver.Client(t, s.Root).Get(t.Context(), client.ObjectKey{Name: "vendor"}, o); err != nil {
		t.Fatal(err)
	}
	n, _, _ := unstructured.NestedInt64(o.Object, "watches")
	return n
}

// Without its claim the controller says what is missing, and goes on when that is accepted.
func TestClaimIsNotAccepted(t *testing.T) {
	s := testserver.Start(t)
	config := s.Plane("vendor", "")
	testserver.Create(t, testserver.Client(t, config), read(t, "provider.yaml"))
	c := testserver.Client(t, s.Plane("team-a", ""))
	binding, _, _ := strings.Cut(read(t, "consumer.yaml"), "  accept:")
	testserver.Bind(t, c, binding)
	testserver.Create(t, c, database)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- run(ctx, config, "databases", options(1)) }()
	defer func() { cancel(); <-ended }()
	db := testserver.Object(t, database)
	testserver.Await(t, "the database says nothing", func(ctx context.Context) bool {
		message := ""
		if c.Get(ctx, client.ObjectKeyFromObject(db), db) == nil {
			message, _, _ = unstructured.NestedString(db.Object, "status", "message")
		}
		return strings.Contains(message, "does not accept")
	})
	accepted := testserver.Object(t, read(t, "consumer.yaml"))
	patch, err := accepted.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Patch(t.Context(), accepted, client.RawPatch("application/merge-patch+json", patch)); err != nil {
		t.Fatal(err)
	}
	testserver.Await(t, "the claim is not accepted", func(ctx context.Context) bool {
		return c.Get(ctx, client.ObjectKeyFromObject(accepted), accepted) == nil && testserver.IsTrue(accepted, "ClaimsAccepted")
	})
	if err := c.Patch(t.Context(), testserver.Object(t, database), client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"labels":{"try":"again"}}}`))); err != nil {
		t.Fatal(err)
	}
	testserver.Await(t, "there is no secret", func(context.Context) bool { return isReady(t, c) })
}
