package main

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"

	"github.com/kanzen-io/kanzen/bench/side"
)

// guarded are loads on a server that has more to do for each object than the servers of the other rows. It starts on fresh data.
type guarded struct {
	flags []string
	loads []load
}

const (
	auditPolicy = `{"apiVersion":"audit.k8s.io/v1","kind":"Policy","rules":[{"level":"RequestResponse"}]}`
	// encryption has a key of 32 bytes; which is no matter.
	encryption = `{"apiVersion":"apiserver.config.k8s.io/v1","kind":"EncryptionConfiguration","resources":[{"resources":["secrets"],
		"providers":[{"secretbox":{"keys":[{"name":"bench","secret":"MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="}]}},{"identity":{}}]}]}`
	secretsPath = "/api/v1/namespaces/" + namespace + "/secrets"
)

// guards are all of them. Their servers find their files in dir, and write there.
func (b *bench) guards(dir string) []guarded {
	return []guarded{
		{
			flags: []string{"--audit-policy-file", filepath.Join(dir, "policy.json"), "--audit-log-path", filepath.Join(dir, "log", "audit.log")},
			loads: []load{auditedLoad(filepath.Join(dir, "log"))},
		},
		{
			flags: []string{"--encryption-provider-config", filepath.Join(dir, "encryption.json")},
			loads: b.secretLoads(),
		},
	}
}

// measureGuarded starts a side for each of them and measures its loads.
func (b *bench) measureGuarded(ctx context.Context, name string) error {
	dir, err := os.MkdirTemp("", "kanzen-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	err = errors.Join(os.Mkdir(filepath.Join(dir, "log"), 0o700),
		os.WriteFile(filepath.Join(dir, "policy.json"), []byte(auditPolicy), 0o600),
		os.WriteFile(filepath.Join(dir, "encryption.json"), []byte(encryption), 0o600))
	if err != nil {
		return err
	}
	for _, g := range b.guards(dir) {
		if err := b.guard(ctx, name, g); err != nil {
			return err
		}
	}
	return nil
}

func (b *bench) guard(ctx context.Context, name string, g guarded) error {
	if !b.wantsAny(loadNames(g.loads)...) {
		return nil
	}
	return onSide(ctx, name, b.programs, side.Options{Flags: g.flags}, func(ctx context.Context, s *side.Side) error { return b.loadAll(ctx, s, g.loads) })
}

// auditedLoad is create-plain, with a server that writes each object to its log twice, as it was sent and as it was answered.
func auditedLoad(logs string) load {
	l := admissionLoads()[0]
	l.name, l.title = "create-audited", "create a pod, audited at RequestResponse"
	create, prepare := l.request, l.before
	var made atomic.Int64
	l.request = func(i int) side.Request {
		made.Add(1)
		return create(i)
	}
	l.before = func(ctx context.Context, s *side.Side) (func() error, error) {
		if _, err := prepare(ctx, s); err != nil {
			return nil, err
		}
		began, err := bytesIn(logs)
		return func() error {
			ended, err := bytesIn(logs)
			if err != nil {
				return err
			}
			each := (ended - began) / made.Load()
			progress("%s: %s: the log has %d bytes for each", s.Name, l.name, each)
			if sent := int64(len(create(0).Body)); each < 2*sent {
				return fmt.Errorf("the audit log has %d bytes for each creation, which sends %d", each, sent)
			}
			return nil
		}, err
	}
	return l
}

// bytesIn is the length of all files of a directory.
func bytesIn(dir string) (sum int64, err error) {
	err = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err == nil {
			sum += info.Size()
		}
		return err
	})
	return sum, err
}

// secretLoads are loads on Secrets of 1 KB, as many as pods.
func (b *bench) secretLoads() []load {
	return []load{
		{
			name: "secret-create", title: "create a Secret, encrypted at rest (secretbox)", clients: 8, round: b.pods + 50, warm: 50, once: true,
			request: func(i int) side.Request {
				r := side.Request{Method: http.MethodPost, Path: secretsPath + "?fieldManager=bench", ContentType: "application/json", Body: secretBody(i)}
				if i < 50 || i >= b.pods+50 { // not among those counted
					r.Path = strings.Replace(r.Path, namespace, warmNamespace, 1)
				}
				return r
			},
		},
		{
			name: "secret-list", title: fmt.Sprintf("list %d encrypted Secrets, JSON, after a restart", b.pods), clients: 1, round: 10, warm: 2, check: items(b.pods),
			before: func(ctx context.Context, s *side.Side) (func() error, error) {
				if err := s.Restart(ctx); err != nil {
					return nil, err
				}
				progress("%s: ready again after %d ms", s.Name, s.Ready.Milliseconds())
				b.results.add(memorySection, fmt.Sprintf("restart with %d encrypted Secrets, from exec to ready", b.pods), "ms", s.Name, ms(s.Ready))
				return func() error { return nil }, s.Calm(ctx)
			},
			request: func(int) side.Request { return side.Request{Method: http.MethodGet, Path: secretsPath} },
		},
	}
}

// secretBody is the i-th Secret.
func secretBody(i int) string {
	return encode(object{"apiVersion": "v1", "kind": "Secret", "type": "Opaque", "metadata": object{"name": fmt.Sprintf("secret-%05d", i)},
		"data": object{"value": base64.StdEncoding.EncodeToString([]byte(side.Text(i, valueSize)))}})
}
