package main

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/kanzen-io/kanzen/bench/side"
)

// etcdTimeout is how long etcd may take to be there.
const etcdTimeout = time.Minute

// keepStored remembers what an object that a load wrote looks like in etcd: its protobuf, but for the resource version.
func (b *bench) keepStored(ctx context.Context, s *side.Side, l load) error {
	if l.stored == "" || len(b.stored[l.name]) > 0 {
		return nil
	}
	c := s.Client()
	defer c.Close()
	var body bytes.Buffer
	if err := c.Do(ctx, side.Request{Method: http.MethodGet, Path: l.stored, Accept: protobuf}, &body); err != nil {
		return err
	}
	if err := isProtobuf(body.Bytes()); err != nil {
		return err
	}
	b.stored[l.name] = body.Bytes()
	return nil
}

// measureEtcd puts what the loads wrote into a bare etcd: what of a write is the write itself.
func (b *bench) measureEtcd(ctx context.Context) error {
	s, address, err := side.StartEtcd(b.programs)
	if err != nil {
		return err
	}
	defer s.Stop()
	for _, l := range loads(b.pods) {
		value := b.stored[l.name]
		if len(value) == 0 {
			continue
		}
		c, err := b.puts(ctx, s, address, l, string(value))
		if err != nil {
			return fmt.Errorf("%s: %w%s", l.name, err, s.Logs())
		}
		b.results.addLoad(s.Name, l, c)
	}
	return nil
}

// puts gives etcd the writes of a load.
func (b *bench) puts(ctx context.Context, s *side.Side, address string, l load, value string) (cost, error) {
	send := &sender{load: l}
	defer send.close()
	for range l.clients {
		db, err := clientv3.New(clientv3.Config{Endpoints: []string{address}})
		if err != nil {
			return cost{}, err
		}
		send.clients = append(send.clients, putConnection{db, value})
		if err := awaitEtcd(ctx, db); err != nil {
			return cost{}, err
		}
	}
	return b.repeat(ctx, s, send)
}

// awaitEtcd returns when etcd answers.
func awaitEtcd(ctx context.Context, db *clientv3.Client) error {
	ctx, cancel := context.WithTimeout(ctx, etcdTimeout)
	defer cancel()
	for {
		_, err := db.Get(ctx, "/")
		if err == nil {
			return nil
		}
		if side.Sleep(ctx, 10*time.Millisecond) != nil {
			return err
		}
	}
}

// putConnection is a gRPC connection to etcd, and what it puts.
type putConnection struct {
	db    *clientv3.Client
	value string
}

func (c putConnection) do(ctx context.Context, l load, i int, _ *bytes.Buffer) (time.Duration, error) {
	n := i
	if l.keys > 0 {
		n %= l.keys
	}
	key := fmt.Sprintf("/registry/%s/%s/object-%07d", l.name, namespace, n)
	began := time.Now()
	_, err := c.db.Put(ctx, key, c.value)
	return time.Since(began), err
}

func (c putConnection) Close() { _ = c.db.Close() } // nothing is lost: each put was answered
