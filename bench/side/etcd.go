package side

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// EtcdClient is a client of the etcd that a side has of its own; that of Kanzen has a socket if Options.EtcdListens.
func (s *Side) EtcdClient() (*clientv3.Client, error) {
	c := clientv3.Config{Endpoints: []string{s.etcd}, DialTimeout: 10 * time.Second}
	if s.Name == Kanzen {
		dir := s.path("data/pki/etcd/")
		cert, err := tls.LoadX509KeyPair(dir+"/client.crt", dir+"/client.key")
		if err != nil {
			return nil, err
		}
		ca, err := os.ReadFile(dir + "/ca.crt")
		if err != nil {
			return nil, err
		}
		roots := x509.NewCertPool()
		roots.AppendCertsFromPEM(ca)
		c.TLS = &tls.Config{Certificates: []tls.Certificate{cert}, RootCAs: roots}
	}
	return clientv3.New(c)
}

// Copy writes the stored bytes of object 0, whose keys begin with prefix, under the names that name gives the numbers from from to to,
// exclusively, and with the texts that text gives them. All names must have the same length, and so must all texts, because they are in
// messages of protobuf.
func Copy(ctx context.Context, db *clientv3.Client, prefix string, from, to int, name, text func(i int) string) error {
	first, firstText := name(0), text(0)
	got, err := db.Get(ctx, prefix+first)
	if err != nil {
		return err
	}
	if len(got.Kvs) != 1 {
		return fmt.Errorf("%s is not where kube-apiserver keeps it", first)
	}
	value := got.Kvs[0].Value
	if !bytes.Contains(value, []byte(firstText)) {
		return fmt.Errorf("%s has another text", first)
	}
	const together = 100
	for ; from < to; from += together {
		var puts []clientv3.Op
		for n := from; n < min(from+together, to); n++ {
			puts = append(puts, clientv3.OpPut(prefix+name(n), strings.NewReplacer(first, name(n), firstText, text(n)).Replace(string(value))))
		}
		if _, err := db.Txn(ctx).Then(puts...).Commit(); err != nil {
			return err
		}
	}
	return nil
}
